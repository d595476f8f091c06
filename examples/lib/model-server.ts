/** A model server that answers by a script: chat completions over HTTP, in place of models that cost money. A word is a token. */
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import type { ChatMessage } from './gateway.ts';

/** What a script reads of a request. `seed` differs for each of several choices. */
export type Asked = { readonly messages: readonly ChatMessage[]; readonly maxTokens: number; readonly seed: number };

type Request = {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly max_tokens?: number;
  readonly seed?: number;
  readonly n?: number;
};

/** Serves at --port until the process ends, and prints the address. An answer is cut after max_tokens words. */
export function serveModel(answer: (asked: Asked) => string, port: number): void {
  const { values } = parseArgs({ options: { port: { type: 'string', default: String(port) } } });
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = complete(JSON.parse(Buffer.concat(chunks).toString('utf8')) as Request, answer);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  server.listen(Number(values.port), '127.0.0.1', () => process.stdout.write(`http://127.0.0.1:${values.port}/v1\n`));
}

function complete({ model, messages, max_tokens, seed = 0, n = 1 }: Request, answer: (asked: Asked) => string): object {
  const maxTokens = max_tokens ?? Number.POSITIVE_INFINITY;
  const answers = Array.from({ length: n }, (_, i) => wordsOf(answer({ messages, maxTokens, seed: seed + i })));
  const choices = answers.map((words, index) => ({
    index,
    message: { role: 'assistant', content: words.slice(0, maxTokens).join(' ') },
    finish_reason: words.length > maxTokens ? 'length' : 'stop',
  }));
  const prompt_tokens = messages.reduce((sum, { content }) => sum + wordsOf(content).length, 0);
  const completion_tokens = answers.reduce((sum, words) => sum + Math.min(words.length, maxTokens), 0);
  const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
  return { id: 'scripted', object: 'chat.completion', created: 0, model, choices, usage };
}

const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
