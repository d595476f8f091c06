// A planner that asks a model once, written by hand in the GenAI conventions, sent as protobuf.
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { plan } from './plan.mjs';

const exporter = new OTLPTraceExporter({ url: `${process.env.TROUPE_URL}/v1/traces` });
const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
provider.register();

plan(provider.getTracer('team'));
await provider.shutdown();
