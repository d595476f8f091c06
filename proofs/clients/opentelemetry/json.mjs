// The same planner, sent as JSON, a request for each span.
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { plan } from './plan.mjs';

const exporter = new OTLPTraceExporter({ url: `${process.env.TROUPE_URL}/v1/traces` });
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
provider.register();

plan(provider.getTracer('team'));
await provider.shutdown();
