"""Property tests run under the profile that the environment asks for."""

from property_tests.profiles import load_profile

load_profile()
