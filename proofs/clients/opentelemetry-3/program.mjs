// A planner that asks a model once, in version 3 of OpenTelemetry for JavaScript, whose processors take their exporter by name.
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';

const exporter = new OTLPTraceExporter({ url: `${process.env.TROUPE_URL}/v1/traces` });
const provider = new TracerProvider({ spanProcessors: [new BatchSpanProcessor({ exporter })] });
context.setGlobalContextManager(new AsyncLocalStorageContextManager());
trace.setGlobalTracerProvider(provider);

const tracer = trace.getTracer('team');
const agent = { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'planner' };
tracer.startActiveSpan('invoke_agent planner', { attributes: agent }, (around) => {
  const call = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': 'made-up',
    'gen_ai.input.messages': JSON.stringify([{ role: 'user', parts: [{ type: 'text', content: 'How far?' }] }]),
    'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', parts: [{ type: 'text', content: 'Far.' }] }]),
  };
  tracer.startSpan('chat made-up', { attributes: call }).end();
  around.end();
});
await provider.shutdown();
