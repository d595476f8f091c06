// Traceloop's decorators as functions, and a model call in a span of its own.
import { trace } from '@opentelemetry/api';
import * as traceloop from '@traceloop/node-server-sdk';

traceloop.initialize({
  appName: 'team',
  baseUrl: process.env.TROUPE_URL,
  apiKey: 'none',
  silenceInitializationMessage: true,
});

await traceloop.withWorkflow({ name: 'team' }, () =>
  traceloop.withAgent({ name: 'planner' }, async () => {
    const attributes = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'made-up',
      'gen_ai.input.messages': JSON.stringify([{ role: 'user', parts: [{ type: 'text', content: 'How far?' }] }]),
      'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', parts: [{ type: 'text', content: 'Far.' }] }]),
    };
    trace.getTracer('team').startSpan('chat made-up', { attributes }).end();
  }),
);
await traceloop.forceFlush();
process.exit(0);
