/** An app on a database of its own, with a speaker that answers from a list, and little ways to ask it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { OwnModel, PolicyServers } from '../../../api/gateway/policy-servers.ts';
import { unknownModel } from '../../../api/gateway/policy-servers.ts';
import { type AppOptions, buildApp } from '../../../api/http/app.ts';
import { openKeyRing } from '../../../api/http/key-ring.ts';
import { fileArtifacts } from '../../../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../../../ingest/log/postgres.ts';
import { openReader } from '../../../store/db/reader.ts';
import { projectBatch } from '../../../store/projecting/projector.ts';
import { type Home, openHome } from '../../../store/server/home.ts';
import type { SampleAnswer, SampleAsk } from '../../../trainer/sample/infer-wire.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

export type TestApp = TestDatabase & {
  readonly app: FastifyInstance;
  /** What the app works with. */
  readonly parts: Pick<AppOptions, 'db' | 'log' | 'book' | 'artifacts' | 'project'> & { readonly home: Home };
  /** Waits until everything in the log is in the tables. */
  readonly project: () => Promise<void>;
};

export async function testApp(options: Partial<AppOptions> = {}): Promise<TestApp> {
  const database = await freshDatabase();
  const { db } = database;
  let reader: ReturnType<typeof openReader> | undefined;
  const parts = {
    db,
    log: postgresLog(db),
    book: postgresBook(db),
    artifacts: fileArtifacts(join(tmpdir(), 'troupe-test-artifacts')),
    project: 'test',
    home: options.home ?? openHome(mkdtempSync(join(tmpdir(), 'troupe-test-home-'))),
  };
  const project = async (): Promise<void> => {
    while ((await projectBatch(db)) > 0);
  };
  const app = await buildApp({
    ...parts,
    catchUp: project,
    policyServers: fixedPolicyServers(),
    keys: openKeyRing(db),
    reader: () => {
      reader ??= openReader({ ...database, embedded: true });
      return reader;
    },
    version: '0.0.0',
    ...options,
  });
  return {
    ...database,
    app,
    parts,
    project,
    close: async () => {
      // A body that a test did not read to its end would keep its connection for the 72 s of keep-alive.
      app.server.closeAllConnections();
      await app.close();
      await (await reader)?.close();
      await database.close();
      rmSync(parts.home.root, { recursive: true, force: true });
    },
  };
}

/** Token 0 is part of a character. */
const tokenText = (id: number): string => (id === 0 ? 'bytes:\\xe2\\x80' : ` é${id}`);

/** Serves `policy:solver`: choice i of a request has the tokens [seed, i] and says so. Keeps what it was asked. */
export function fixedPolicyServers(): PolicyServers & {
  readonly asked: { readonly who: OwnModel; readonly ask: SampleAsk }[];
  /** Whose prompts were counted. */
  readonly counted: OwnModel[];
} {
  const asked: { who: OwnModel; ask: SampleAsk }[] = [];
  const counted: OwnModel[] = [];
  return {
    asked,
    counted,
    models: async () => ['checkpoint:c-1', 'policy:solver'],
    prompt: async (who) => {
      counted.push(who);
      return { prompt_token_ids: [7, 8, 9], model: 'solver', checkpoint: 'c-1' };
    },
    sample: async (who, ask): Promise<SampleAnswer> => {
      asked.push({ who, ask });
      if (who.name !== 'solver' && who.name !== 'c-1')
        throw unknownModel(`${who.kind}:${who.name}`, ['checkpoint:c-1', 'policy:solver']);
      const n = ask.n ?? 1;
      return {
        choices: Array.from({ length: n }, (_, i) => ({
          token_ids: [ask.seed ?? 0, i],
          logprobs: [-0.5, -0.25 * (i + 1)],
          text: `answer ${i}`,
          finish_reason: 'stop' as const,
          ...(ask.token_texts ? { tokens: [tokenText(ask.seed ?? 0), tokenText(i)] } : {}),
          ...(ask.raw_logprobs ? { raw_logprobs: [-0.75, -0.5] } : {}),
          ...(ask.top_logprobs
            ? {
                top_logprobs: [0, 1].map(() =>
                  Array.from({ length: ask.top_logprobs! }, (_, k) => ({
                    token_id: k,
                    ...(ask.token_texts ? { token: tokenText(k) } : {}),
                    logprob: -k - 0.5,
                  })),
                ),
              }
            : {}),
        })),
        prompt_token_ids: [7, 8, 9],
        model: 'solver',
        checkpoint: 'c-1',
        usage: { prompt_tokens: 3, completion_tokens: 2 * n },
      };
    },
  };
}

/** A valid event as an envelope. */
export const anEvent = (id: string, episode = 'e1', data: object = {}) => ({
  specversion: '1.0',
  id,
  source: '/test',
  type: 'troupe.message.sent.v1',
  data: { episode_id: episode, message_id: id, content: 'hello', ...data },
});

export const post = (app: FastifyInstance, body: unknown, headers: Record<string, string> = {}, url = '/v1/events') =>
  app.inject({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json', ...headers },
    payload: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
  });
