"""The team by LiteLLM's SDK, traced by OpenInference."""

import litellm_team as team
from openinference.instrumentation.litellm import LiteLLMInstrumentor
from spans import provider

LiteLLMInstrumentor().instrument(tracer_provider=provider)
team.run()
provider.shutdown()
