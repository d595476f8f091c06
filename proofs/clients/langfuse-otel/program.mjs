// Langfuse's OpenTelemetry processor with its own observations.
import { LangfuseSpanProcessor } from '@langfuse/otel';
import { startActiveObservation } from '@langfuse/tracing';
import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node';

const processor = new LangfuseSpanProcessor({ baseUrl: process.env.TROUPE_URL, publicKey: 'none', secretKey: 'none' });
const provider = new NodeTracerProvider({ spanProcessors: [processor] });
provider.register();

await startActiveObservation(
  'planner',
  async (planner) => {
    const input = [{ role: 'user', content: 'How far?' }];
    const call = planner.startObservation('chat', { model: 'made-up', input }, { asType: 'generation' });
    call.update({ output: { role: 'assistant', content: 'Far.' } }).end();
  },
  { asType: 'agent' },
);
await processor.forceFlush();
await provider.shutdown();
