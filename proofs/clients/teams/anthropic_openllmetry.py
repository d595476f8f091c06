"""The team by Anthropic's SDK, traced by OpenLLMetry beside the SDK's own spans."""

from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
from spans import provider

AnthropicInstrumentor().instrument(tracer_provider=provider)

import anthropic_spans  # noqa: E402, F401
