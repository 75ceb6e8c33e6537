"""What index.md needs and doesn't show."""

from losslens.datasets import bikeshare_times

times = bikeshare_times()[X_test.index]
shares = ll.shapley_importance(model, X_test[:400], y_test[:400], method="rows")
refits = ll.feature_importance_cv(
    HistGradientBoostingRegressor(max_iter=40, categorical_features="from_dtype", random_state=0),
    X_test,
    y_test,
    cv=4,
    random_state=0,
)
within = ll.feature_importance(model, X_test, y_test, donors=ll.Within(), random_state=0)
effect = ll.shapley_effect(model, X_test, X_test.index[0])
small = 4.2, 2.4
picture("share", lambda ax: shares.plot(ax=ax), *small)
picture("surely", lambda ax: imp.plot(ax=ax), *small)
picture("curve", lambda ax: hr.plot(curves=False, ax=ax), *small)
picture("groups", lambda ax: by_days.plot_curves(ax=ax), *small)
picture("pairs", lambda ax: pairs.plot(ax=ax), *small)
picture("given", lambda ax: within.plot(ax=ax), *small)
picture("refits", lambda ax: refits.plot(ax=ax), *small)
picture("time", lambda ax: imp["temp"].over(times).plot(ax=ax), *small)
picture("rows", lambda ax: shares.rank_rows().plot(ax=ax), *small)
picture("models", lambda ax: comparison.plot(ax=ax), *small)
picture("one", lambda ax: effect.plot(ax=ax), *small)
by_r2 = ll.feature_importance(model, X_test, y_test, loss="r2")
picture("score", lambda ax: by_r2.plot(ax=ax), *small)
