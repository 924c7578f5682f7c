"""For all tests: machines are shared, so no property test has a deadline; what fails can be replayed."""

from hypothesis import settings

settings.register_profile("walshadow", deadline=None, print_blob=True)
settings.load_profile("walshadow")
