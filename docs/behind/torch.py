"""Whether what tutorials/torch.md says of its numbers is so: run at the place where the page names it."""

assert np.mean(model(torch.from_numpy(X_test)).argmax(1).numpy() == y_test) > 0.975
empty, middle = ["0,0", "0,3", "3,0"], ["1,1", "1,2", "2,1", "2,2"]
assert all(abs(imp[name].pfi) < 0.01 for name in empty)
assert all(abs(X_test[:, squares[name]].mean()) < 0.1 for name in empty)
assert sum(imp[name].pfi for name in middle) > 0.7 * sum(one.pfi for one in imp.values())
assert max(parts[9], key=lambda name: parts[9][name].pfi) == "1,2" and parts[9]["1,2"].interval()[0] > imp["1,2"].pfi
assert max(parts[1], key=lambda name: parts[1][name].pfi) != "1,2"
assert max(one.pfi for one in parts[1].values()) < parts[9]["1,2"].pfi
assert set(np.bincount(y_test)) <= set(range(45, 56))
