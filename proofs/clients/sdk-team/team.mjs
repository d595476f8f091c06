/**
 * A planner that looks a thing up, hands over what it found to a writer, and the writer's answer: by the SDKs of OpenAI and Anthropic alone,
 * streamed, in one of three dialects. Each episode is played for each task as often as asked; a line of JSON for each says what the SDK made of
 * every stream.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { GATEWAY, CLIENT_FOLDER } = process.env;
const { dialect, model, name, tasks, samples, facts, prompts, tools } = JSON.parse(process.env.TEAM);
const load = async (sdk) => {
  const entry = createRequire(join(CLIENT_FOLDER, 'package.json')).resolve(sdk);
  return (await import(pathToFileURL(entry))).default;
};
const MAX_TOKENS = 48;

/** How a dialect says an answer of the model, a result of a tool, and what the SDK made of a stream. */
const dialects = {
  chat: async () => {
    const OpenAI = await load('openai');
    return {
      client: (defaultHeaders) =>
        new OpenAI({ baseURL: `${GATEWAY}/v1`, apiKey: 'troupe', maxRetries: 0, defaultHeaders }),
      async say(client, system, messages, offered) {
        const stream = client.chat.completions.stream({
          ...{ model, max_completion_tokens: MAX_TOKENS, stream_options: { include_usage: true } },
          messages: [{ role: 'system', content: system }, ...messages],
          ...(offered.length > 0 ? { tools: offered, parallel_tool_calls: false } : {}),
        });
        const { choices, usage } = await stream.finalChatCompletion();
        const { content, tool_calls: calls = [] } = choices[0].message;
        return {
          text: content ?? '',
          calls: calls.map(({ id, function: { name, arguments: written } }) => ({ id, name, written })),
          usage: [usage.prompt_tokens, usage.completion_tokens],
          produced: [{ role: 'assistant', content, ...(calls.length > 0 ? { tool_calls: calls } : {}) }],
        };
      },
      result: ({ id }, content) => ({ role: 'tool', tool_call_id: id, content }),
    };
  },
  responses: async () => {
    const OpenAI = await load('openai');
    return {
      client: (defaultHeaders) =>
        new OpenAI({ baseURL: `${GATEWAY}/v1`, apiKey: 'troupe', maxRetries: 0, defaultHeaders }),
      async say(client, instructions, input, offered) {
        const flat = offered.map(({ type, function: described }) => ({ type, ...described }));
        const stream = client.responses.stream({
          ...{ model, max_output_tokens: MAX_TOKENS, instructions, input },
          ...(flat.length > 0 ? { tools: flat, parallel_tool_calls: false } : {}),
        });
        const { output, output_text: text, usage } = await stream.finalResponse();
        const calls = output.filter(({ type }) => type === 'function_call');
        return {
          text,
          calls: calls.map(({ call_id: id, name, arguments: written }) => ({ id, name, written })),
          usage: [usage.input_tokens, usage.output_tokens],
          produced: output,
        };
      },
      result: ({ id }, output) => ({ type: 'function_call_output', call_id: id, output }),
    };
  },
  messages: async () => {
    const Anthropic = await load('@anthropic-ai/sdk');
    return {
      client: (defaultHeaders) => new Anthropic({ baseURL: GATEWAY, apiKey: 'troupe', maxRetries: 0, defaultHeaders }),
      async say(client, system, messages, offered) {
        const own = offered.map(({ function: { parameters, ...described } }) => ({
          ...described,
          input_schema: parameters,
        }));
        const choice = { type: 'auto', disable_parallel_tool_use: true };
        const stream = client.messages.stream({
          ...{ model, max_tokens: MAX_TOKENS, system, messages },
          ...(own.length > 0 ? { tools: own, tool_choice: choice } : {}),
        });
        const { content, usage } = await stream.finalMessage();
        const calls = content.filter(({ type }) => type === 'tool_use');
        return {
          text: content.map(({ text = '' }) => text).join(''),
          calls: calls.map(({ id, name, input }) => ({ id, name, input })),
          usage: [usage.input_tokens, usage.output_tokens],
          produced: [{ role: 'assistant', content }],
        };
      },
      result: ({ id }, content) => ({ role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content }] }),
    };
  },
};

const { client, say, result } = await dialects[dialect]();

/** One episode. The planner ends without an answer where it does not hand over within two calls. */
async function play(task, sample) {
  const episode = `${name}-${task}-${sample}`;
  const shared = { 'Troupe-Episode': episode, 'Troupe-Task': task, 'Troupe-Group': `${name}-${task}` };
  const as = (agent) => client({ ...shared, 'Troupe-Agent': agent, 'Troupe-Role': agent });
  const calls = [];
  const asked = async (agent, conversation, offered) => {
    const answer = await say(as(agent), prompts[agent], conversation, offered);
    const { produced: _, ...reported } = answer;
    calls.push({ agent, ...reported });
    return answer;
  };
  const argument = ({ written, input }, field) => {
    const value = (input ?? JSON.parse(written))[field];
    return typeof value === 'string' && value !== '' ? value : 'nothing';
  };
  const conversation = [{ role: 'user', content: `What colour is the ${task}?` }];
  const results = [];
  let note = null;
  for (let turn = 0; turn < 2 && note === null; turn++) {
    const { produced, calls } = await asked('planner', conversation, tools);
    const [call] = calls;
    if (call === undefined) break;
    if (call.name === 'hand_over') {
      note = argument(call, 'note');
      break;
    }
    const found = facts[argument(call, 'item')] ?? 'nothing';
    results.push(found);
    conversation.push(...produced, result(call, found));
  }
  const answer = note === null ? '' : (await asked('writer', [{ role: 'user', content: note }], [])).text;
  process.stdout.write(`${JSON.stringify({ episode, task, calls, results, note, answer })}\n`);
}

const waiting = tasks.flatMap((task) => Array.from({ length: samples }, (_, sample) => [task, sample]));
const lane = async () => {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await play(...next);
};
await Promise.all(Array.from({ length: 6 }, lane));
