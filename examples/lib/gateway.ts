/** How the members of a team call their models: chat completions over HTTP, with headers that say who asks in which episode. */
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

export type ChatMessage = { readonly role: 'system' | 'user' | 'assistant'; readonly content: string };

/** One model call by one member. */
export type Call = {
  readonly episode: string;
  readonly role: string;
  /** Name of the member; its role. */
  readonly agent?: string;
  /** Round of the environment; 0. */
  readonly turn?: number;
  /** The step that the answers are expanded from, in a tree. */
  readonly parent?: string;
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  /** How many answers to the same prompt. */
  readonly n: number;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly seed: number;
};

/** One answer, under the id it was recorded by. `ids` are the tokens of prompt and answer, where a policy answered. */
export type Answer = { readonly stepId: string; readonly text: string; readonly ids: readonly number[] };
/** A question for the value of a text that is given as tokens. */
export type ValueCall = Pick<Call, 'episode' | 'role' | 'turn' | 'model'> & { readonly ids: readonly number[] };

export type Gateway = {
  /** All `n` answers of a call. Throws when the gateway refuses it, or stays away through all tries. */
  readonly ask: (call: Call) => Promise<readonly Answer[]>;
  /** What a policy with a value head says of these tokens. Throws as `ask` does, and for an answer that is no number. */
  readonly value: (call: ValueCall) => Promise<number>;
  readonly close: () => void;
};

const TRIES = 6;
const TIMEOUT = 300_000;
const AWAY = new Set([429, 502, 503, 504]);

/** `inFlight`: calls at a time; more of them wait in line. `headers` go with every call. */
export type GatewayOptions = { readonly inFlight?: number; readonly headers?: Readonly<Record<string, string>> };

/** A client of the gateway at `url`. */
export function openGateway(url: string, { inFlight = 256, headers = {} }: GatewayOptions = {}): Gateway {
  const agent = new Agent({ keepAlive: true, maxSockets: inFlight });
  const addressOf = (path: string) => new URL(path, url.endsWith('/') ? url : `${url}/`);
  const [chat, text] = [addressOf('v1/chat/completions'), addressOf('v1/completions')];
  return {
    ask: (call) => {
      const { model, messages, n, maxTokens, temperature, seed } = call;
      const body = { model, messages, n, max_tokens: maxTokens, temperature, seed };
      return ask({ address: chat, agent, headers }, call, body);
    },
    value: async (call) => {
      const [answer] = await ask({ address: text, agent, headers }, call, {
        model: call.model,
        prompt: call.ids,
        n: 1,
      });
      const value = Number(answer!.text || Number.NaN);
      if (Number.isNaN(value))
        throw new Error(`${call.model} should answer with a number; it answered ${answer!.text}.`);
      return value;
    },
    close: () => agent.destroy(),
  };
}

type To = { readonly address: URL; readonly agent: Agent; readonly headers: Readonly<Record<string, string>> };

async function ask(
  { address, agent, headers: extra }: To,
  call: Pick<Call, 'episode' | 'role' | 'agent' | 'turn' | 'parent'>,
  asked: { readonly n: number; readonly [field: string]: unknown },
): Promise<readonly Answer[]> {
  const body = JSON.stringify(asked);
  const headers = {
    ...extra,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'troupe-episode': call.episode,
    'troupe-agent': call.agent ?? call.role,
    'troupe-role': call.role,
    'troupe-turn': String(call.turn ?? 0),
    ...(call.parent === undefined ? {} : { 'troupe-parent': call.parent }),
  };
  for (let attempt = 1; ; attempt++) {
    const answer = await post(address, agent, headers, body);
    if (answer !== 'stale' && !AWAY.has(answer.status)) return readAnswers(answer, asked.n);
    if (attempt === TRIES) throw new Error(`${address} did not answer a ${call.role}'s call in ${TRIES} tries.`);
    if (answer !== 'stale') await sleep(100 * 2 ** attempt);
  }
}

type Reply = { readonly status: number; readonly callId: string | null; readonly text: string };

/**
 * One request. 'stale': the connection was kept from an earlier call and the other side had closed it meanwhile, so this call
 * was never read and can be made again without being recorded twice.
 */
function post(
  address: URL,
  agent: Agent,
  headers: Record<string, string | number>,
  body: string,
): Promise<Reply | 'stale'> {
  return new Promise((resolve, reject) => {
    const sent = request(address, { method: 'POST', agent, headers, timeout: TIMEOUT }, (response: IncomingMessage) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          callId: (response.headers['troupe-call-id'] as string | undefined) ?? null,
          text: Buffer.concat(chunks).toString('utf8'),
        }),
      );
      response.on('error', reject);
    });
    sent.on('timeout', () => sent.destroy(new Error(`${address} did not answer within ${TIMEOUT / 1000} s.`)));
    sent.on('error', (error: NodeJS.ErrnoException) => {
      if (sent.reusedSocket && error.code === 'ECONNRESET') resolve('stale');
      else reject(error);
    });
    sent.end(body);
  });
}

type Completion = {
  readonly choices?: readonly {
    readonly index?: number;
    readonly message?: { readonly content?: string | null };
    readonly text?: string;
    readonly token_ids?: readonly number[];
  }[];
  readonly prompt_token_ids?: readonly number[];
  readonly troupe?: { readonly step_ids?: readonly string[] };
};

/** A policy's answer names its steps; the answer of another model server is passed on unchanged, and a header names its call. */
function readAnswers({ status, callId, text }: Reply, n: number): readonly Answer[] {
  if (status !== 200) throw new Error(`The gateway answered ${status}: ${text.slice(0, 300)}`);
  const { choices = [], prompt_token_ids: prompt = [], troupe } = JSON.parse(text) as Completion;
  const stepIds = troupe?.step_ids ?? (callId === null ? [] : choices.map((_, i) => `${callId}/${i}`));
  if (choices.length !== n || stepIds.length !== n) {
    throw new Error(
      `The gateway gave ${choices.length} answers and ${stepIds.length} step ids where ${n} were asked for.`,
    );
  }
  return choices.map((choice, i) => ({
    stepId: stepIds[choice.index ?? i]!,
    text: (choice.message?.content ?? choice.text ?? '').trim(),
    ids: [...prompt, ...(choice.token_ids ?? [])],
  }));
}
