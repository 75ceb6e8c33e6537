import os

# Each pytest worker has a core of its own: models that start a thread per core would fight over them.
# Set before NumPy and the estimator libraries load, or they don't see it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # no window, no display needed

from hypothesis import HealthCheck, settings

# No deadline, no complaint about slow data: how fast a busy machine is says nothing about the code.
# On CI the same examples every time: new ones are for developers, who can act on what they find.
settings.register_profile(
    "losslens",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("losslens")
