"""The team in LangGraph, traced by OpenInference."""

from openinference.instrumentation.langchain import LangChainInstrumentor
from spans import provider

LangChainInstrumentor().instrument(tracer_provider=provider)

import langgraph_team  # noqa: E402, F401

provider.shutdown()
