"""The tool's version, which every verdict and every report names."""

from importlib.metadata import version

VERSION = version("cvs")
