"""The command line, configuration, launchers and the front door: what a user of draftmesh meets."""

__version__ = "0.1.0"
