"""Whether what meanings.md says of its numbers is so: run at the place where the page names it."""

rooms, light, noise = table.loc["rooms"], table.loc["light"], table.loc["noise"]
assert rooms["PFI"] > 0.2 and rooms["SFIMP"] > 3 * rooms["PFI"] > 0  # the model uses it; SFIMP pays for what it shares
assert abs(rooms["conditional PFI"]) < 0.1 and abs(rooms["LOCO"]) < 0.1
assert table.loc["size", "conditional PFI"] < 0.4 * table.loc["size", "PFI"]
assert abs(light["PFI"] / light["SFIMP"] - 2) < 0.3  # counted twice by PFI
assert abs(light["conditional PFI"] / light["PFI"] - 1) < 0.1  # independent of the others
gain = shares.error_none - shares.error_all
assert np.isclose(shares.sfimp.sum(), gain) and np.isclose(gain, 2 * np.cov(model.predict(X), y, ddof=0)[0, 1])
assert abs(noise["PFI"]) < 0.03 and abs(noise["SFIMP"]) < 0.03 and noise["mean |SHAP|"] > 0.02
assert 0.4 < sage.sfimp[0] / shares.sfimp[0] < 0.6 and (sage.sfimp[:4] < shares.sfimp[:4]).all()
assert 0.4 < light["LOCO"] / light["PFI"] < 0.7
assert list(table["PFI"].rank()) != list(table["mean |SHAP|"].rank())
