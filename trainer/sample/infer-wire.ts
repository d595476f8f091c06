/**
 * The protocol between the sampling process and its clients: one JSON document a line over a Unix domain socket, or one request a POST.
 * Every request has an id of the client's own and gets exactly one reply with that id, in any order; a sample with `stream` gets
 * parts of its text before.
 */
import type { Readable } from 'node:stream';
import { TroupeError } from '../../errors.ts';
import type { ChatMessage } from '../model/tokens/template-messages.ts';
import type { ParsedCalls } from '../model/tokens/tool-calls.ts';

/** What to continue: exactly one of `messages`, `prompt_ids` and `prompt`. */
export type SampleAsk = {
  /** Name of a loaded model; may be left out where one is loaded. */
  readonly model?: string;
  readonly messages?: readonly ChatMessage[];
  readonly tools?: readonly unknown[];
  readonly prompt_ids?: readonly number[];
  readonly prompt?: string;
  /** Samples of the one prompt; 1 if left out. */
  readonly n?: number;
  /** New tokens at most; never more than the model's length leaves, which is also what is meant if left out. */
  readonly max_tokens?: number;
  /** 0 is greedy; 1 if left out. */
  readonly temperature?: number;
  /** Draws among the so many most probable tokens only; 0, which is meant if left out, cuts nothing. */
  readonly top_k?: number;
  /** Draws among the most probable tokens that have so much of the probability; 1, which is meant if left out, cuts nothing. */
  readonly top_p?: number;
  /** Draws among tokens at least so many times as probable as the best; 0, which is meant if left out, cuts nothing. */
  readonly min_p?: number;
  /** Also gives each token's log-probability at temperature 1 with nothing cut. */
  readonly raw_logprobs?: boolean;
  /** Also gives so many of the most probable tokens at each place; 20 at most. */
  readonly top_logprobs?: number;
  /** Also gives the text of each token. */
  readonly token_texts?: boolean;
  /** The same seed, prompt, settings and weights give the same samples, whatever else is in the batch; 0 if left out. */
  readonly seed?: number;
  /** Texts that end a sample; they are not part of its text. */
  readonly stop?: readonly string[];
  /** Tokens that end a sample; the model's end-of-text tokens if left out. */
  readonly stop_ids?: readonly number[];
  /** Samples are JSON texts of this schema, of the part of JSON Schema that can be enforced. */
  readonly json_schema?: unknown;
  /** Samples are one call of this tool, or with `required` of any. */
  readonly tool_choice?: 'required' | { readonly name: string };
  /** Samples end after their first call of a tool, so that none holds two. */
  readonly one_call?: boolean;
  /** Also sends the text of each choice while it is sampled: parts before the reply. */
  readonly stream?: boolean;
};

/** What is known of a response before its first token. */
export type SampleStart = Pick<SampleAnswer, 'prompt_token_ids' | 'model' | 'checkpoint'>;
/** Takes new text of a choice. */
/** New text of a choice, which begins at character `at` of its text. */
export type TextPart = { readonly choice: number; readonly at: number; readonly text: string };

export type OnPart = (part: TextPart, begun: SampleStart) => void;
/** A line before the reply of the request with that id. The first of a request has `begun`. */
export type PartLine = { readonly id: unknown; readonly part: TextPart; readonly begun?: SampleStart };

export type TopLogprob = {
  readonly token_id: number;
  /** There if texts were asked for. */
  readonly token?: string;
  readonly logprob: number;
};

export type Choice = {
  /** New tokens, the one that ended the sample included. */
  readonly token_ids: readonly number[];
  /** Natural logarithm of each token's probability under the distribution it was drawn from. */
  readonly logprobs: readonly number[];
  /** At temperature 1 with nothing cut; there if they were asked for. */
  readonly raw_logprobs?: readonly number[];
  /** The most probable tokens at each place, best first; there if they were asked for. */
  readonly top_logprobs?: readonly (readonly TopLogprob[])[];
  /** The text of each token, `bytes:\x…` for part of a character; there if it was asked for. */
  readonly tokens?: readonly string[];
  /** Without what ended it. */
  readonly text: string;
  /** The tool calls in the text, and the rest of the text; set if tools were offered and called. */
  readonly called?: ParsedCalls;
  readonly finish_reason: 'stop' | 'length';
  /** The stop text that ended it; there if one did. */
  readonly stop_text?: string;
};

export type SampleAnswer = {
  readonly choices: readonly Choice[];
  readonly prompt_token_ids: readonly number[];
  readonly model: string;
  /** Id of the weights that generated the response: one for all choices. */
  readonly checkpoint: string;
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number };
};

/** A prompt as the model would read it: exactly one of `messages`, `prompt_ids` and `prompt`. */
export type PromptAsk = Pick<SampleAsk, 'model' | 'messages' | 'tools' | 'prompt_ids' | 'prompt'>;
export type PromptAnswer = Pick<SampleAnswer, 'prompt_token_ids' | 'model' | 'checkpoint'>;

/** Whether a request of that id was under way. */
export type CancelAnswer = { readonly cancelled: boolean };

export type LoadAsk = { readonly dir: string; readonly name: string };
export type LoadAnswer = { readonly model: string; readonly checkpoint: string };

/** For each row the log-probability at temperature 1 of each completion token, given the tokens before it. */
export type LogprobsAsk = {
  readonly model?: string;
  readonly rows: readonly { readonly prompt_ids: readonly number[]; readonly completion_ids: readonly number[] }[];
};
export type LogprobsAnswer = {
  readonly rows: readonly (readonly number[])[];
  readonly model: string;
  readonly checkpoint: string;
};

export type StatusAnswer = {
  readonly pid: number;
  readonly models: readonly {
    readonly name: string;
    readonly checkpoint: string;
    readonly dir: string;
    readonly vocab_size: number;
    readonly max_tokens: number;
  }[];
  /** Requests that have no answer yet. */
  readonly waiting: number;
  /** What has been answered. */
  readonly requests: number;
  readonly samples: number;
  readonly tokens: number;
};

/** The operations by name: what is asked and what is answered. */
export type Operations = {
  readonly sample: { readonly ask: SampleAsk; readonly answer: SampleAnswer };
  readonly prompt: { readonly ask: PromptAsk; readonly answer: PromptAnswer };
  readonly load: { readonly ask: LoadAsk; readonly answer: LoadAnswer };
  readonly logprobs: { readonly ask: LogprobsAsk; readonly answer: LogprobsAnswer };
  /** Withdraws a request of the same connection by its id; that request is answered `interrupted`. */
  readonly cancel: { readonly ask: { readonly request: unknown }; readonly answer: CancelAnswer };
  readonly status: { readonly ask: Readonly<Record<never, never>>; readonly answer: StatusAnswer };
};

export type ErrorReply = {
  readonly id: unknown;
  readonly error: { readonly code: string; readonly message: string; readonly field?: string };
};

/** Where requests are posted, on the HTTP address of a process. */
export const INFER_PATH = '/v1/infer';
/** Characters of the key that other machines need, at least. */
export const SHORTEST_KEY = 16;

/** Longest socket path: the kernel's own limit is 104 bytes on macOS and 108 on Linux, with the final zero. */
const MAX_PATH_BYTES = 100;
/** A request of 192 prompts of 4000 tokens has about 5 MB. */
export const MAX_LINE_CHARACTERS = 64 * 1024 * 1024;

/** Throws `config_invalid` for a path the kernel would cut off. */
export function checkSocketPath(path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes <= MAX_PATH_BYTES) return;
  throw new TroupeError(
    'config_invalid',
    `The socket path ${path} has ${bytes} bytes; a Unix domain socket can have ${MAX_PATH_BYTES}.`,
    { expected: `at most ${MAX_PATH_BYTES} bytes`, got: `${bytes} bytes`, hint: 'Use a shorter home (--home DIR).' },
  );
}

/** Calls `onLine` for each line that arrives, but empty ones. A line without end closes the connection once it is too long. */
export function readLines(socket: Readable, onLine: (line: string) => void): void {
  let parts: string[] = [];
  let length = 0;
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    let begin = 0;
    for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', begin)) {
      const line = parts.length === 0 ? chunk.slice(begin, end) : parts.join('') + chunk.slice(begin, end);
      parts = [];
      length = 0;
      begin = end + 1;
      if (line !== '') onLine(line);
    }
    if (begin === chunk.length) return;
    parts.push(chunk.slice(begin));
    length += chunk.length - begin;
    if (length > MAX_LINE_CHARACTERS)
      socket.destroy(new Error(`a line of more than ${MAX_LINE_CHARACTERS} characters`));
  });
}

/** Name of a model that a process has loaded beside that of its policy, for the episodes that play with this checkpoint. */
export const modelOfCheckpoint = (checkpoint: string): string => `checkpoint:${checkpoint}`;
