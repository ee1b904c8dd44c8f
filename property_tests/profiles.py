"""Hypothesis profiles: dev (`make check`), ci (`make test` in CI), nightly (campaigns; CVS_EXAMPLES sets the size),
mutants (mutation testing: a failure is enough, nobody reads its smallest example)."""

import os

from hypothesis import HealthCheck, Phase, settings

SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]  # because load of the machine is no finding

settings.register_profile(
    "dev", max_examples=25, deadline=None, derandomize=True, suppress_health_check=SLOW_IS_FINE
)
settings.register_profile(
    "ci",
    max_examples=50,
    deadline=None,
    derandomize=True,  # because one commit has one verdict; the nightly parts explore
    print_blob=True,
    suppress_health_check=SLOW_IS_FINE,
)
settings.register_profile(
    "mutants",
    max_examples=25,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=SLOW_IS_FINE,
)
settings.register_profile(
    "nightly",
    max_examples=int(os.environ.get("CVS_EXAMPLES", "2000")),
    deadline=None,
    print_blob=True,
    suppress_health_check=SLOW_IS_FINE,
)


def load_profile() -> None:
    """Choose by HYPOTHESIS_PROFILE; in CI the default is `ci`."""
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
