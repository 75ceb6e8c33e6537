"""What index.md needs and doesn't show."""

import matplotlib.pyplot as plt
from myst_nb import glue
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

import losslens as ll
from losslens.datasets import load_bikeshare

X, y = load_bikeshare()
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=1000, random_state=0)
learner = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
model = learner.fit(X_train, y_train)
imp = ll.feature_importance(model, X_test, y_test)
hr, days = imp["hr"], X_test["workingday"]


def picture(name, draw, wide=4.8, high=3.4):
    figure, ax = plt.subplots(figsize=(wide, high), layout="constrained")
    draw(ax)
    glue(name, figure, display=False)
    plt.close(figure)


picture("which", lambda ax: imp.plot(ax=ax))
picture("where", lambda ax: hr.plot(curves=False, ax=ax))
by_days = hr.by(days.map({1: "working days", 0: "days off"}))
picture("whom", lambda ax: by_days.plot_curves(ax=ax))
pairs = ll.pair_interactions(model, X_test[:400], y_test[:400], features=["hr", "workingday", "temp", "atemp", "hum"])
picture("together", lambda ax: pairs.interaction.plot_ranking(ax=ax))
numbers = ["hr", "workingday", "temp", "hum", "windspeed"]
line = LinearRegression().fit(X_train[numbers], y_train)
models = {"boosting": model, "a line": lambda X: line.predict(X[numbers])}
comparison = ll.compare(models, X_test, y_test, loss="squared_error", features=numbers, shapley=False)
picture("model", lambda ax: comparison.plot(ax=ax))
