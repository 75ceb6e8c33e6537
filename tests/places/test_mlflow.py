"""`losslens.mlflow` with a tracking store on disk."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import losslens as ll

mlflow = pytest.importorskip("mlflow")
pytestmark = [
    pytest.mark.thread_unsafe(reason="the store is that of the process"),
    pytest.mark.filterwarnings("ignore"),  # of the store's own migrations
]
X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b & c", "größe"])
Y = X["a"].to_numpy() + 0.1 * np.random.default_rng(1).normal(size=60)
MODEL = LinearRegression().fit(X, Y)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An active run of a store on disk."""
    folder = tmp_path_factory.mktemp("store")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder}/store.db")
    mlflow.create_experiment("losslens", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("losslens")
    with mlflow.start_run() as active:
        yield active.info.run_id
    mlflow.set_tracking_uri(before)


def files(run, folder=None):
    return sorted(one.path for one in mlflow.artifacts.list_artifacts(run_id=run, artifact_path=folder))


def test_an_importance_is_a_table_a_picture_a_file_and_numbers(run, tmp_path):
    from losslens.mlflow import log_importance

    imp = ll.feature_importance(MODEL, X, Y)
    log_importance(imp)
    assert files(run, "importance") == [
        f"importance/{name}" for name in ("ranking.png", "result.losslens", "table.csv")
    ]
    metrics = mlflow.get_run(run).data.metrics
    for name, known in (("a", "a"), ("b & c", "b _ c"), ("größe", "größe")):
        assert metrics[f"importance/{known}"] == pytest.approx(imp[name].pfi)
        assert metrics[f"importance_std_error/{known}"] == pytest.approx(imp[name].std_error)
    path = mlflow.artifacts.download_artifacts(
        run_id=run, artifact_path="importance/result.losslens", dst_path=tmp_path
    )
    assert ll.load(path)["a"].pfi == imp["a"].pfi
    table = pd.read_csv(mlflow.artifacts.download_artifacts(run_id=run, artifact_path="importance/table.csv"))
    assert table["feature"].tolist() == imp.to_frame()["feature"].tolist()


def test_shares_and_refits_have_names_of_their_own(run):
    from losslens.mlflow import log_importance

    log_importance(ll.shapley_importance(MODEL, X, Y), "shares", run_id=run)
    refits = ll.feature_importance_cv(LinearRegression(), X, Y, cv=3, random_state=0)
    log_importance(refits, "refits")
    metrics = mlflow.get_run(run).data.metrics
    assert metrics["shares/a"] > 0
    assert metrics["refits/a"] == pytest.approx(refits.importance[0])


def test_a_report_is_one_page(run):
    from losslens.mlflow import log_report

    log_report(ll.report(MODEL, X, Y, progress=False), "page.html")
    assert "page.html" in files(run)


def test_what_is_no_importance_is_refused(run):
    from losslens.mlflow import log_importance, log_report

    with pytest.raises(TypeError, match="pass a result with one number a feature, as of feature_importance; got 3"):
        log_importance(3)
    with pytest.raises(TypeError, match="pass a result with one number a feature"):
        log_importance(ll.feature_importance(MODEL, X, Y)["a"])
    with pytest.raises(TypeError, match=r"pass what losslens\.report returns; got int"):
        log_report(3)
