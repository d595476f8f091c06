// A planner that looks up two cities at once and lets a writer write by a tool, in the AI SDK, traced by its own integration.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { OpenTelemetry } from '@ai-sdk/otel';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { generateText, registerTelemetry, stepCountIs, tool } from 'ai';
import { z } from 'zod';

const exporter = new OTLPTraceExporter({ url: `${process.env.TROUPE_URL}/v1/traces` });
const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
provider.register();
registerTelemetry(new OpenTelemetry());

const model = createOpenAICompatible({ name: 'scripted', baseURL: process.env.MODEL_URL })('made-up');
await generateText({
  model,
  prompt: 'How far are Bern and Rome?',
  stopWhen: stepCountIs(5),
  telemetry: { functionId: 'planner' },
  tools: {
    look_up: tool({ inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => `${city} is far` }),
    transfer_to_writer: tool({
      inputSchema: z.object({}),
      execute: async () =>
        (await generateText({ model, prompt: 'Write it down.', telemetry: { functionId: 'writer' } })).text,
    }),
  },
});
await provider.shutdown();
