"""The team in LangGraph, traced by OpenLLMetry."""

from opentelemetry.instrumentation.langchain import LangchainInstrumentor
from spans import provider

LangchainInstrumentor().instrument(tracer_provider=provider)

import langgraph_team  # noqa: E402, F401

provider.shutdown()
