// The OpenAI Agents SDK with its own exporter; the model is made up and says in a span what it was asked and what it answered.
import {
  Agent,
  BatchTraceProcessor,
  OpenAITracingExporter,
  Runner,
  setTraceProcessors,
  setTracingDisabled,
  Usage,
  withGenerationSpan,
} from '@openai/agents';

const exporter = new OpenAITracingExporter({ apiKey: 'none', endpoint: `${process.env.TROUPE_URL}/v1/traces/ingest` });
const processor = new BatchTraceProcessor(exporter);
setTraceProcessors([processor]);

setTracingDisabled(false);
const model = {
  getResponse: (request) =>
    withGenerationSpan(async (span) => {
      span.spanData.model = 'made-up';
      span.spanData.input = [{ role: 'user', content: 'How far?' }];
      span.spanData.output = [{ role: 'assistant', content: 'Far.' }];
      const content = [{ type: 'output_text', text: 'Far.' }];
      const output = [{ type: 'message', role: 'assistant', status: 'completed', content }];
      return { usage: new Usage(), output, responseId: undefined, request };
    }),
};
const runner = new Runner({ modelProvider: { getModel: async () => model }, workflowName: 'team' });
await runner.run(new Agent({ name: 'planner', instructions: 'Plan.' }), 'How far?');
await processor.forceFlush();
await processor.shutdown();
