/**
 * Trace stores that `bench otlp` measures beside Troupe, each from a venv that an environment variable names: on the same PostgreSQL,
 * but for the store of Agent Lightning, which keeps its spans in memory and loses them with its process.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { openPool } from '../store/db/pool.ts';
import { freePort } from '../test/support/free-port.ts';

export type StartedPeer = {
  readonly name: string;
  readonly url: string;
  readonly pid: number;
  readonly headers: Record<string, string>;
  /** What the resource of its spans must say besides their service. */
  readonly resource: Readonly<Record<string, string>>;
  /** Spans that its tables hold. */
  readonly count: () => Promise<number>;
  readonly stop: () => Promise<void>;
};

type Peer = { readonly name: string; readonly start: (database: string, scratch: string) => Promise<StartedPeer> };

type About = {
  readonly name: string;
  readonly variable: string;
  readonly program: string;
  readonly install: string;
  readonly ready: string;
  readonly headers: Record<string, string>;
  readonly args: (port: number, database: string) => readonly string[];
  readonly env: (port: number, database: string, folder: string) => Record<string, string>;
  /** For a store without tables: opens what the spans belong to, and counts them. */
  readonly inMemory?: (url: string) => Promise<Pick<StartedPeer, 'resource' | 'count'>>;
};

const PEERS: readonly About[] = [
  {
    name: 'MLflow',
    variable: 'TROUPE_BENCH_MLFLOW',
    program: 'mlflow',
    install: 'mlflow==3.17.2 psycopg2-binary',
    ready: '/health',
    headers: { 'x-mlflow-experiment-id': '0' },
    args: (port, database) =>
      `server --host 127.0.0.1 --port ${port} --workers 1 --backend-store-uri ${database.replace(/^postgres(?:ql)?:/, 'postgresql+psycopg2:')}`.split(
        ' ',
      ),
    env: () => ({ MLFLOW_DISABLE_TELEMETRY: 'true', DO_NOT_TRACK: 'true' }),
  },
  {
    name: 'Phoenix',
    variable: 'TROUPE_BENCH_PHOENIX',
    program: 'phoenix',
    install: 'arize-phoenix==20.26.1 asyncpg',
    ready: '/healthz',
    headers: {},
    args: () => ['serve'],
    env: (port, database, folder) => ({
      PHOENIX_TELEMETRY_ENABLED: 'false',
      PHOENIX_HOST: '127.0.0.1',
      PHOENIX_PORT: String(port),
      PHOENIX_GRPC_PORT: String(port + 1),
      PHOENIX_WORKING_DIR: folder,
      PHOENIX_SQL_DATABASE_URL: database.replace(/^postgres:/, 'postgresql:'),
    }),
  },
  {
    name: 'Agent Lightning, in memory',
    variable: 'TROUPE_BENCH_AGENTLIGHTNING',
    program: 'agl',
    install: 'agentlightning==0.3.0',
    ready: '/v1/agl/health',
    headers: {},
    args: (port) => ['store', '--host', '127.0.0.1', '--port', String(port), '--log-level', 'ERROR'],
    env: () => ({ LITELLM_LOCAL_MODEL_COST_MAP: 'True' }),
    inMemory: async (url) => {
      const started = await fetch(`${url}/v1/agl/rollouts`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ input: 'bench' }),
      });
      const { rollout_id, attempt } = (await started.json()) as {
        readonly rollout_id: string;
        readonly attempt: { readonly attempt_id: string };
      };
      return {
        resource: { 'agentlightning.rollout_id': rollout_id, 'agentlightning.attempt_id': attempt.attempt_id },
        count: async () => {
          const statistics = await fetch(`${url}/v1/agl/statistics`);
          return ((await statistics.json()) as { readonly total_spans: number }).total_spans;
        },
      };
    },
  },
];

type Env = Readonly<Record<string, string | undefined>>;

/** The peers that are there, and for each other one the line that says how to get it. */
export function findPeers(env: Env): { readonly found: readonly Peer[]; readonly missing: readonly string[] } {
  const there = ({ variable, program }: About): boolean => existsSync(join(env[variable] ?? '', 'bin', program));
  return {
    found: PEERS.filter(there).map((about) => ({
      name: about.name,
      start: (database, scratch) => start(about, env[about.variable]!, database, scratch),
    })),
    missing: PEERS.filter((about) => !there(about)).map(
      ({ name, variable, install }) =>
        `no ${name}; say: python3 -m venv DIR && DIR/bin/pip install ${install} (about 900 MB), and set ${variable}=DIR`,
    ),
  };
}

async function start(about: About, venv: string, database: string, scratch: string): Promise<StartedPeer> {
  const [name, folder, port] = [about.program, join(scratch, about.program), await freePort()];
  mkdirSync(folder, { recursive: true });
  const admin = openPool(database);
  await admin.query(`create database ${name}`);
  await admin.close();
  const own = new URL(database);
  own.pathname = `/${name}`;
  own.hostname = '127.0.0.1'; // SQLAlchemy does not read the address of a socket.
  const child = spawn(join(venv, 'bin', about.program), [...about.args(port, own.href)], {
    cwd: folder,
    env: { ...process.env, ...about.env(port, own.href, folder) },
    stdio: 'ignore',
    // It starts workers of its own, which end with its group.
    detached: true,
  });
  const [url, pid] = [`http://127.0.0.1:${port}`, child.pid ?? 0];
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.pid === undefined) return;
    const gone = once(child, 'exit');
    process.kill(-child.pid, 'SIGKILL');
    await gone;
  };
  const deadline = performance.now() + 120_000;
  while (
    !(await fetch(`${url}${about.ready}`).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (child.exitCode !== null || performance.now() > deadline) {
      await stop();
      throw new Error(`${about.name} did not come up`);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  if (about.inMemory) {
    return { name: about.name, url, pid, headers: about.headers, stop, ...(await about.inMemory(url)) };
  }
  const db = openPool(own.href);
  return {
    name: about.name,
    url,
    pid,
    headers: about.headers,
    resource: {},
    count: async () => Number((await db.query<{ n: string }>('select count(*) as n from spans')).rows[0]!.n),
    stop: async () => {
      await db.close();
      await stop();
    },
  };
}
