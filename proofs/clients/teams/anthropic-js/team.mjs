// A planner that calls a tool twice at once and hands over to a writer, by Anthropic's SDK alone. BASE_URL may hold `{agent}`.
import Anthropic from '@anthropic-ai/sdk';

const city = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const tools = [
  { name: 'look_up', description: 'Look up a city.', input_schema: city },
  { name: 'transfer_to_writer', description: 'Hand over to the writer.', input_schema: { type: 'object' } },
];
const asked = { model: 'made-up', max_tokens: 64 };
const client = (agent) =>
  new Anthropic({ baseURL: process.env.BASE_URL.replace('{agent}', agent), apiKey: 'none', maxRetries: 0 });

export async function plan(lookUp = async (name) => `${name} is far`) {
  const messages = [{ role: 'user', content: 'How far are Bern and Rome?' }];
  for (;;) {
    const { content } = await client('planner').messages.create({ ...asked, messages, tools });
    const calls = content.filter(({ type }) => type === 'tool_use');
    const results = await Promise.all(
      calls.map(async ({ id, name, input }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: name === 'look_up' ? await lookUp(input.city) : 'Handed over.',
      })),
    );
    messages.push({ role: 'assistant', content }, { role: 'user', content: results });
    if (calls.some(({ name }) => name === 'transfer_to_writer')) return messages;
  }
}

export const write = (messages) =>
  client('writer')
    .messages.stream({ ...asked, messages })
    .finalText();
