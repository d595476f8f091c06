/** A chat endpoint of one test: answers each request as the test says, and remembers what it was asked. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export type Asked = {
  readonly headers: IncomingMessage['headers'];
  readonly messages: readonly { readonly role: string; readonly content: string }[];
};
/** A text is what the model says; a number is a status; `hang` never answers. */
export type Reply = string | number | 'hang' | { readonly status: number; readonly retryAfter: string };

export type Endpoint = { readonly url: string; readonly asked: Asked[]; readonly stop: () => Promise<void> };

export async function startEndpoint(reply: (asked: Asked, nth: number) => Reply): Promise<Endpoint> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const one = { headers: request.headers, messages: JSON.parse(await text(request)).messages };
    asked.push(one);
    const answer = reply(one, asked.length - 1);
    if (answer === 'hang') return;
    if (typeof answer === 'number') return response.writeHead(answer).end();
    if (typeof answer !== 'string')
      return response.writeHead(answer.status, { 'retry-after': answer.retryAfter }).end();
    response.writeHead(200, { 'content-type': 'application/json' }).end(
      JSON.stringify({
        choices: [{ index: 0, message: { role: 'assistant', content: answer } }],
        usage: { prompt_tokens: 100, completion_tokens: 10 },
      }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked,
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
