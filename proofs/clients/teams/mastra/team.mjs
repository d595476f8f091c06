// A planner that looks up two cities at once and calls a writer, its sub-agent, in Mastra, traced by its exporter for OpenTelemetry.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { Agent } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { createTool } from '@mastra/core/tools';
import { Observability } from '@mastra/observability';
import { OtelExporter } from '@mastra/otel-exporter';
import { z } from 'zod';

const model = createOpenAICompatible({ name: 'scripted', baseURL: process.env.MODEL_URL, includeUsage: true })(
  'made-up',
);
const lookUp = createTool({
  id: 'look_up',
  description: 'Look up a city.',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `${city} is far`,
});
const writer = new Agent({ id: 'writer', name: 'writer', description: 'Writes.', instructions: 'Write.', model });
const planner = new Agent({
  id: 'planner',
  name: 'planner',
  instructions: 'Plan.',
  model,
  tools: { look_up: lookUp },
  agents: { writer },
});
const endpoint = `${process.env.TROUPE_URL}/v1/traces`;
const exporter = new OtelExporter({ provider: { custom: { endpoint, protocol: 'http/protobuf' } } });
const observability = new Observability({ configs: { otel: { serviceName: 'team', exporters: [exporter] } } });
const mastra = new Mastra({ agents: { planner, writer }, observability, logger: false });
await mastra.getAgent('planner').generate('How far are Bern and Rome?');
await mastra.shutdown();
process.exit(0);
