"""A planner that asks a made-up model once, written by hand in the GenAI conventions."""

import json
import os

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

exporter = OTLPSpanExporter(endpoint=f"{os.environ['TROUPE_URL']}/v1/traces")
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(exporter))

tracer = provider.get_tracer("team")
message = lambda role, text: json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
with tracer.start_as_current_span("invoke_agent planner") as agent:
    agent.set_attribute("gen_ai.operation.name", "invoke_agent")
    agent.set_attribute("gen_ai.agent.name", "planner")
    with tracer.start_as_current_span("chat made-up") as call:
        call.set_attribute("gen_ai.operation.name", "chat")
        call.set_attribute("gen_ai.request.model", "made-up")
        call.set_attribute("gen_ai.input.messages", message("user", "How far?"))
        call.set_attribute("gen_ai.output.messages", message("assistant", "Far."))
provider.shutdown()
