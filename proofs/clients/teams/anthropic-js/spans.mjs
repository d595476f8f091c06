// The team by Anthropic's SDK, which has spans of its own; the program names its agents and tools in spans of the GenAI conventions.
import { trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { plan, write } from './team.mjs';

const exporter = new OTLPTraceExporter({ url: `${process.env.TROUPE_URL}/v1/traces` });
const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
provider.register();

const tracer = trace.getTracer('team');
const within = (name, attributes, work) =>
  tracer.startActiveSpan(name, { attributes }, async (span) => {
    const result = await work(span);
    span.end();
    return result;
  });
const agent = (name, work) =>
  within(`invoke_agent ${name}`, { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': name }, work);
const lookUp = (city) =>
  within('execute_tool look_up', { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'look_up' }, (span) => {
    span.setAttribute('gen_ai.tool.call.arguments', JSON.stringify({ city }));
    span.setAttribute('gen_ai.tool.call.result', `${city} is far`);
    return `${city} is far`;
  });

await within('team', {}, async () => {
  const messages = await agent('planner', () => plan(lookUp));
  await agent('writer', () => write(messages));
});
await provider.shutdown();
