/** An S3 server for proofs: finding its program, and running it on a free port of this machine over an empty folder. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../test/support/free-port.ts';

export const VERSITYGW_VERSION = 'v1.8.0';

type Env = Readonly<Record<string, string | undefined>>;

/** `TROUPE_VERSITYGW` if it is set, else what `.ci/run` installs. Says how to get it where it is missing. */
export function findVersitygw(env: Env): { readonly versitygw: string } | { readonly missing: string } {
  const cache = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci');
  const made = join(cache, `versitygw-${VERSITYGW_VERSION}`, 'versitygw');
  const versitygw = env.TROUPE_VERSITYGW || made;
  if (existsSync(versitygw)) return { versitygw };
  const install = `GOBIN=${join(made, '..')} go install github.com/versity/versitygw/cmd/versitygw@${VERSITYGW_VERSION}`;
  return { missing: `no S3 server at ${versitygw}; say: ${install} (about 2 minutes, 80 MB), or set TROUPE_VERSITYGW` };
}

export type S3Server = {
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
  /** Where it keeps parts of objects that are not whole yet. */
  readonly parts: string;
  stop(): Promise<void>;
};

/** The environment of a process that uses the server. */
export const s3Env = ({ endpoint, region, accessKeyId, secretAccessKey }: S3Server) => ({
  ...process.env,
  AWS_ENDPOINT_URL: endpoint,
  AWS_REGION: region,
  AWS_ACCESS_KEY_ID: accessKeyId,
  AWS_SECRET_ACCESS_KEY: secretAccessKey,
});

/** Runs the checks of a proof beside a server with one empty bucket. */
export async function withS3<T>(folder: string, bucket: string, checks: (server: S3Server) => Promise<T>): Promise<T> {
  const found = findVersitygw(process.env);
  if ('missing' in found) throw new Error(found.missing);
  const server = await startS3(found.versitygw, folder, bucket);
  try {
    return await checks(server);
  } finally {
    await server.stop();
  }
}

/** Starts the server with one empty bucket of the name given, in `folder`. Throws with its last words where it does not come up. */
async function startS3(versitygw: string, folder: string, bucket: string): Promise<S3Server> {
  const [data, side] = [join(folder, 'objects'), join(folder, 'attributes')];
  for (const path of [join(data, bucket), side]) mkdirSync(path, { recursive: true });
  const parts = join(data, bucket, '.sgwtmp', 'multipart');
  const port = await freePort();
  const [accessKeyId, secretAccessKey] = ['PROOFACCESSKEY', 'proof-secret-that-no-error-may-show'];
  const env = { ...process.env, ROOT_ACCESS_KEY: accessKeyId, ROOT_SECRET_KEY: secretAccessKey };
  const child = spawn(versitygw, ['--quiet', '--port', `127.0.0.1:${port}`, 'posix', '--sidecar', side, data], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    output = `${output}${text}`.slice(-2000);
  });
  const ended = once(child, 'exit');
  const endpoint = `http://127.0.0.1:${port}`;
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await ended;
  };
  for (let attempt = 0; attempt < 200; attempt++) {
    if (child.exitCode !== null) break;
    const answered = await fetch(endpoint).then(
      () => true,
      () => false,
    );
    if (answered) return { endpoint, accessKeyId, secretAccessKey, region: 'us-east-1', parts, stop };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await stop();
  throw new Error(`${versitygw} did not come up: ${output.trim()}`);
}
