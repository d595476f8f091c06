/** Calls of the OpenAI client through the gateway, one line of JSON each: what it was, and what the client made of the answer. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { GATEWAY, CLIENT_FOLDER, TROUPE_KEY } = process.env;
const entry = createRequire(join(CLIENT_FOLDER, 'package.json')).resolve('openai');
const { default: OpenAI } = await import(pathToFileURL(entry));

const who = (name) => ({ episode: `js-${name}`, agent: `js-agent-${name}` });
const client = (name, more = {}) => {
  const { episode, agent } = who(name);
  const baseURL = `${GATEWAY}/e/${episode}/a/${agent}/v1`;
  return new OpenAI({ baseURL, apiKey: TROUPE_KEY, maxRetries: 0, ...more });
};
const messages = [{ role: 'user', content: 'hello' }];
const tools = [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }];

const cases = {
  chat: async (ai) => (await ai.chat.completions.create({ model: 'echo', messages })).choices[0].message.content,
  streamed: async (ai) => {
    let text = '';
    for await (const { choices } of await ai.chat.completions.create({ model: 'echo', messages, stream: true }))
      text += choices[0]?.delta.content ?? '';
    return text;
  },
  both: async (ai) =>
    (await ai.chat.completions.create({ model: 'echo', messages, n: 2 })).choices.map(({ message }) => message.content),
  tools: async (ai) => {
    const stream = ai.chat.completions.stream({ model: 'tools', messages, tools });
    const [call] = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
    return [call.function.name, call.function.arguments];
  },
  text: async (ai) => (await ai.completions.create({ model: 'echo', prompt: 'one' })).choices[0].text,
  responses: async (ai) => (await ai.responses.create({ model: 'echo', input: 'hi' })).output_text,
  'responses-streamed': async (ai) => {
    let text = '';
    for await (const event of await ai.responses.create({ model: 'echo', input: 'hi', stream: true }))
      if (event.type === 'response.output_text.delta') text += event.delta;
    return text;
  },
  embeddings: async (ai) =>
    (await ai.embeddings.create({ model: 'echo', input: 'a', encoding_format: 'float' })).data[0].embedding,
  models: async (ai) => {
    const names = [];
    for await (const { id } of ai.models.list()) names.push(id);
    return names.includes('echo') && names.includes('policy:team');
  },
  'wrong-key': (ai) => failure(ai, 'wrong-key'),
  busy: (ai) => failure(ai, 'busy'),
  broken: (ai) => failure(ai, 'broken'),
  policy: async (ai) => {
    const answer = await ai.chat.completions.create({
      model: 'policy:team',
      messages: [{ role: 'user', content: 'one two' }],
      max_tokens: 3,
      seed: 1,
    });
    return typeof answer.choices[0].message.content;
  },
  headers: async () => {
    const { episode, agent } = who('headers');
    const defaultHeaders = { 'Troupe-Episode': episode, 'Troupe-Agent': agent, 'Troupe-Key': TROUPE_KEY };
    const ai = new OpenAI({ baseURL: `${GATEWAY}/v1`, apiKey: 'sk-of-the-caller', maxRetries: 0, defaultHeaders });
    return (await ai.chat.completions.create({ model: 'echo', messages })).choices[0].message.content;
  },
  'no-key': () => failure(client('no-key', { apiKey: 'sk-of-the-caller' }), 'echo'),
};

async function failure(ai, model) {
  try {
    await ai.chat.completions.create({ model, messages });
    return 'no failure';
  } catch (error) {
    return [error.constructor.name, error.status];
  }
}

for (const [name, call] of Object.entries(cases)) {
  const result = await call(client(name)).catch((error) => `failed: ${error.message}`);
  process.stdout.write(`${JSON.stringify({ name, result })}\n`);
}
