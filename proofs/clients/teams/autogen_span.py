"""The same team within a span of the application around its run, which makes all of it one trace."""

from spans import provider

with provider.get_tracer("application").start_as_current_span("run"):
    import autogen_team  # noqa: F401
