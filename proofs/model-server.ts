/**
 * A model server of OpenAI's chat interface that answers by a script: who has the tool `look_up` calls it twice at once, then hands over
 * by `transfer_to_writer`, and anybody else answers with a sentence. Each answer bills other numbers of tokens.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';

/** Tokens of one answer: [input, output]. */
export type Billed = readonly [input: number, output: number];

type Asked = {
  readonly messages: readonly { readonly role: string; readonly tool_calls?: readonly Call[] }[];
  readonly tools?: readonly { readonly function: { readonly name: string } }[];
};
type Call = {
  readonly id: string;
  readonly type: string;
  readonly function: { readonly name: string; readonly arguments: string };
};

export const SENTENCE = 'Bern and Rome are far.';

/** Listens on a free port of this machine until it is closed. */
export async function modelServer(): Promise<{
  readonly url: string;
  readonly billed: readonly Billed[];
  readonly close: () => void;
}> {
  const billed: Billed[] = [];
  const server = createServer(async (request, response) => {
    const asked = JSON.parse(await text(request)) as Asked;
    const n = billed.length + 1;
    const [input, output] = [10 + n, 3 * n];
    billed.push([input, output]);
    const calls = callsFor(asked, n);
    const message = { role: 'assistant', content: calls.length > 0 ? null : SENTENCE };
    const answer = {
      id: `chatcmpl-${n}`,
      object: 'chat.completion',
      created: 1_789_000_000,
      model: 'made-up',
      choices: [
        {
          index: 0,
          message: calls.length > 0 ? { ...message, tool_calls: calls } : message,
          finish_reason: calls.length > 0 ? 'tool_calls' : 'stop',
        },
      ],
      usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
    };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}/v1`, billed, close: () => server.close() };
}

function callsFor({ messages, tools = [] }: Asked, n: number): Call[] {
  const call = (name: string, given: object, i = 0): Call => ({
    id: `call_${n}_${i}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(given) },
  });
  const has = (name: string): boolean => tools.some((tool) => tool.function.name === name);
  const called = new Set(messages.flatMap(({ tool_calls: made }) => (made ?? []).map((one) => one.function.name)));
  if (has('look_up') && !called.has('look_up')) return ['Bern', 'Rome'].map((city, i) => call('look_up', { city }, i));
  return has('transfer_to_writer') && !called.has('transfer_to_writer') ? [call('transfer_to_writer', {})] : [];
}
