/**
 * As much of an S3 server as commands need, in memory: objects of one bucket with their versions, metadata, ranges and
 * conditions. Signatures are not looked at; the proof `checkpoints-in-s3` talks to a real server.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

type Held = { readonly content: Buffer; readonly sha256: string | undefined; readonly etag: string };

export type Bucket = {
  readonly held: Map<string, Held>;
  /** What `troupe` finds it by. */
  readonly env: Readonly<Record<string, string>>;
  /** Answers every request with an error of the server while true. */
  broken: boolean;
  readonly stop: () => Promise<void>;
};

export async function startBucket(name: string): Promise<Bucket> {
  const held = new Map<string, Held>();
  const server = createServer(async (request, response) => {
    const body = await bodyOf(request);
    const url = new URL(request.url!, 'http://bucket');
    const key = decodeURIComponent(url.pathname).slice(name.length + 2);
    const found = held.get(key);
    const answer = (status: number, headers: Record<string, string> = {}, content: Buffer | string = ''): void => {
      response.writeHead(status, { 'content-length': String(Buffer.byteLength(content)), ...headers }).end(content);
    };
    if (bucket.broken) return answer(503, {}, '<Error><Code>SlowDown</Code></Error>');
    if (request.method === 'PUT') {
      const { 'if-match': same, 'if-none-match': none, 'x-amz-meta-sha256': sha256 } = request.headers;
      if ((same !== undefined && found?.etag !== same) || (none !== undefined && found)) return answer(412);
      const etag = `"${createHash('md5').update(body).digest('hex')}"`;
      held.set(key, { content: body, sha256: sha256 as string | undefined, etag });
      return answer(200, { etag });
    }
    if (request.method === 'DELETE') {
      held.delete(key);
      return answer(204);
    }
    if (key === '' || url.searchParams.has('list-type')) {
      const prefix = url.searchParams.get('prefix') ?? '';
      const keys = [...held.keys()].filter((one) => one.startsWith(prefix)).sort();
      const each = keys.map(
        (one) => `<Contents><Key>${one}</Key><Size>${held.get(one)!.content.length}</Size></Contents>`,
      );
      return answer(
        200,
        { 'content-type': 'application/xml' },
        `<ListBucketResult><IsTruncated>false</IsTruncated>${each.join('')}</ListBucketResult>`,
      );
    }
    if (!found) return answer(404, {}, '<Error><Code>NoSuchKey</Code></Error>');
    const { content, sha256, etag } = found;
    const [, from = '0', to = String(content.length - 1)] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
    const part = content.subarray(Number(from), Number(to) + 1);
    const range = `bytes ${from}-${Number(from) + part.length - 1}/${content.length}`;
    answer(206, { etag, 'content-range': range, ...(sha256 ? { 'x-amz-meta-sha256': sha256 } : {}) }, part);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const bucket: Bucket = {
    held,
    broken: false,
    env: {
      AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'made-up',
      AWS_SECRET_ACCESS_KEY: 'made-up-as-well',
    },
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return bucket;
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}
