// A planner that calls a tool twice at once and hands over to a writer, by Anthropic's SDK, traced by OpenLLMetry for TypeScript.
import * as anthropic from '@anthropic-ai/sdk';
import * as traceloop from '@traceloop/node-server-sdk';

traceloop.initialize({
  appName: 'team',
  baseUrl: process.env.TROUPE_URL,
  apiKey: 'none',
  silenceInitializationMessage: true,
  instrumentModules: { anthropic },
});

const client = new anthropic.Anthropic({ baseURL: process.env.BASE_URL, apiKey: 'none', maxRetries: 0 });
const city = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const tools = [
  { name: 'look_up', description: 'Look up a city.', input_schema: city },
  { name: 'transfer_to_writer', description: 'Hand over to the writer.', input_schema: { type: 'object' } },
];
const asked = { model: 'made-up', max_tokens: 64 };
const lookUp = ({ city: name }) =>
  traceloop.withTool({ name: 'look_up' }, async ({ city }) => `${city} is far`, { city: name });
const handOver = () => traceloop.withTool({ name: 'transfer_to_writer' }, async () => 'Handed over.');

async function plan() {
  const messages = [{ role: 'user', content: 'How far are Bern and Rome?' }];
  for (;;) {
    const { content } = await client.messages.create({ ...asked, messages, tools });
    const calls = content.filter(({ type }) => type === 'tool_use');
    const results = await Promise.all(
      calls.map(async ({ id, name, input }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: await (name === 'look_up' ? lookUp(input) : handOver()),
      })),
    );
    messages.push({ role: 'assistant', content }, { role: 'user', content: results });
    if (calls.some(({ name }) => name === 'transfer_to_writer')) return messages;
  }
}

await traceloop.withWorkflow({ name: 'team' }, async () => {
  const messages = await traceloop.withAgent({ name: 'planner' }, plan);
  await traceloop.withAgent({ name: 'writer' }, () => client.messages.create({ ...asked, messages }));
});
await traceloop.forceFlush();
process.exit(0);
