/**
 * A model server that answers by a script, in the dialects of OpenAI (Chat Completions, Responses), Anthropic and Gemini, whole and
 * streamed: a request with the tool `look_up` gets two calls of it at once, then one call of the tool that hands over, and any other a
 * sentence. Each answer bills other numbers of tokens.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { type Asked, type Billed, type Call, type Dialect, dialectOf } from './model-dialects.ts';

export const SENTENCE = 'Bern and Rome are far.';
const TASK = 'Write one sentence about the two cities.';

/** How the frameworks name the tool that hands over to the writer. */
const HAND_OVER =
  /^(?:transfer_to_(?:writer|agent)|handoff|delegate_work_to_coworker|writer|agent-writer|Task|Agent|delegate_task_to_member)$/;
export const isHandOver = (tool: string): boolean => HAND_OVER.test(tool);

/** By which agents of smolagents give their last answer. */
const FINAL = 'final_answer';

/** Parameters that name the agent to go on with. */
const NAMES_AGENT = new Set(['agent_name', 'member_id', 'to_agent', 'coworker', 'subagent_type']);

export type ModelServer = {
  /** Without a path; `/v1` leads to the dialects of OpenAI. */
  readonly origin: string;
  /** Every answer so far. */
  readonly billed: readonly Billed[];
  readonly close: () => void;
};

/** Listens on a free port of this machine until it is closed. */
export async function modelServer(): Promise<ModelServer> {
  const billed: Billed[] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const found = request.method === 'POST' ? dialectOf(request.url ?? '') : null;
    if (found === null) {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"message":"no such path"}}');
      return;
    }
    const { dialect, streamed } = found;
    const parsed = JSON.parse(body) as Record<string, unknown>;
    if (request.url?.includes('/count_tokens')) {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"input_tokens":1}');
      return;
    }
    const n = billed.length + 1;
    const usage = [10 + n, 3 * n] as const;
    billed.push(usage);
    const calls = callsFor(dialect.read(parsed), n);
    const answer = {
      n,
      model: String(parsed.model ?? 'made-up'),
      usage,
      calls,
      text: calls.every(({ name }) => name === FINAL) ? SENTENCE : '',
    };
    if (streamed || parsed.stream === true) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(eventStream(dialect, answer));
    } else {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(dialect.whole(answer)));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  return {
    origin: `http://127.0.0.1:${port}`,
    billed,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

const eventStream = (dialect: Dialect, answer: Parameters<Dialect['streamed']>[0]): string =>
  dialect
    .streamed(answer)
    .map((event) => {
      const named = dialect.named ? `event: ${(event as { type: string }).type}\n` : '';
      return `${named}data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`;
    })
    .join('');

function callsFor({ tools, called }: Asked, n: number): Call[] {
  const call = (name: string, given: object, i = 0): Call => ({ id: `call_${n}_${i}`, name, given });
  const lookUp = tools.find(({ name }) => /(?:^|__)look_up$/.test(name));
  if (lookUp && !called.has(lookUp.name)) return ['Bern', 'Rome'].map((city, i) => call(lookUp.name, { city }, i));
  const next = lookUp && tools.find(({ name }) => isHandOver(name) && !called.has(name));
  if (next) {
    const given = next.parameters.filter((name) => next.required.includes(name) || NAMES_AGENT.has(name));
    return [call(next.name, Object.fromEntries(given.map((name) => [name, NAMES_AGENT.has(name) ? 'writer' : TASK])))];
  }
  const final = tools.find(({ name }) => name === FINAL);
  return final ? [call(final.name, { answer: SENTENCE })] : [];
}
