/**
 * Objects in an S3-compatible bucket: the only file that knows the package for it, which is loaded when the first bucket
 * is opened. Errors name the bucket and the object; neither a key of an account nor an answer of the server is in them.
 */
import type { S3mini } from 's3mini';
import { got, TroupeError } from '../../../errors.ts';

/** Where a bucket is and who asks. */
export type ObjectAccess = {
  /** For example https://s3.eu-central-1.amazonaws.com or http://127.0.0.1:9000; the bucket is put behind it. */
  readonly endpoint: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
};

type ObjectFacts = {
  readonly bytes: number;
  readonly version: string;
  /** As given when the object was put; null where nothing was given. */
  readonly sha256: string | null;
};

/** Puts only if the object still is this version, or null: only if it is not there. */
type PutCondition = { readonly ifVersion?: string | null };

export type Objects = {
  readonly address: string;
  facts(key: string): Promise<ObjectFacts | null>;
  /** Bytes from `begin` to before `end`. Throws `not_found`. */
  read(key: string, begin: number, end: number): Promise<Uint8Array>;
  /** A small object in one piece, or null. Throws `checkpoint_damaged` for one of more than 16 MiB. */
  small(key: string): Promise<{ readonly content: Uint8Array; readonly version: string } | null>;
  /** Throws `conflict` where the condition does not hold. */
  put(key: string, content: Uint8Array, sha256: string, condition?: PutCondition): Promise<void>;
  /**
   * Puts an object in parts, which are asked for in order; `sha256` is null where it is not known before. Nothing is seen of it before the
   * last one has arrived.
   */
  putParts(key: string, parts: AsyncIterable<Uint8Array>, sha256: string | null): Promise<void>;
  /** Keys that begin with `prefix`, sorted. */
  list(prefix: string): Promise<string[]>;
  remove(key: string): Promise<void>;
};

const SMALL = 16 << 20;
const TRIES = 4;
/** A request carries at most one part, of 16 MiB; slower than 140 KB/s is not waited for. */
const REQUEST_MS = 120_000;

/**
 * The settings of object stores in the environment, by the names that all tools of S3 use. Throws `usage` naming what is
 * missing. `env` is handed in by who may read it.
 */
export function objectAccess(env: Readonly<Record<string, string | undefined>>): ObjectAccess {
  const required = (name: string): string => {
    const value = env[name];
    if (value) return value;
    throw new TroupeError('usage', `${name} is not set; a bucket cannot be opened without it.`, {
      hint: 'Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for anything but AWS, AWS_ENDPOINT_URL.',
    });
  };
  if (env.AWS_SESSION_TOKEN) {
    throw new TroupeError('usage', 'AWS_SESSION_TOKEN is set: temporary credentials are not taken.', {
      hint: 'Use a key of a user that may read and write this bucket alone, and unset AWS_SESSION_TOKEN.',
    });
  }
  const region = env.AWS_REGION || 'us-east-1';
  return {
    endpoint: env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || `https://s3.${region}.amazonaws.com`,
    region,
    accessKeyId: required('AWS_ACCESS_KEY_ID'),
    secretAccessKey: required('AWS_SECRET_ACCESS_KEY'),
  };
}

/**
 * Opens a bucket. Throws `platform_unsupported` where the package is not installed, `usage` for an endpoint that is no
 * address or holds credentials. Nothing is asked of the server yet.
 */
export async function openObjects(bucket: string, access: ObjectAccess): Promise<Objects> {
  if (!/^[a-z0-9][a-z0-9.-]{1,62}$/.test(bucket))
    throw new TroupeError('usage', `${got(bucket)} is not the name of a bucket.`);
  const { S3mini: Client } = await loadPackage();
  const client = new Client({
    endpoint: `${checkedEndpoint(access.endpoint)}/${bucket}`,
    region: access.region,
    accessKeyId: access.accessKeyId,
    secretAccessKey: access.secretAccessKey,
    requestAbortTimeout: REQUEST_MS,
  });
  return objectsOf(client, `s3://${bucket}`);
}

async function loadPackage(): Promise<typeof import('s3mini')> {
  try {
    return await import('s3mini');
  } catch (cause) {
    throw new TroupeError('platform_unsupported', 'Buckets need the package s3mini, which is not installed.', {
      hint: 'Run: npm install s3mini@1.0.2',
      cause,
    });
  }
}

function checkedEndpoint(endpoint: string): string {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : null;
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash) {
    throw new TroupeError(
      'usage',
      'The endpoint of the object store is not an address that begins with http:// or https://.',
    );
  }
  if (url.username || url.password) {
    throw new TroupeError('usage', 'The endpoint of the object store must not hold credentials.', {
      hint: 'Put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
    });
  }
  return endpoint.replace(/\/+$/, '');
}

function objectsOf(client: S3mini, address: string): Objects {
  const at = (key: string): string => `${address}/${key}`;

  /** Runs a request again where the server or the network was at fault. The final error names the place and what to do. */
  async function request<T>(key: string, send: () => Promise<T>, { tries = TRIES } = {}): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await send();
      } catch (error) {
        const translated = translate(error, at(key));
        if (!translated.retriable || attempt === tries) throw translated;
        await new Promise((resolve) => setTimeout(resolve, 100 * 4 ** (attempt - 1)));
      }
    }
  }
  const orNull = async <T>(asked: Promise<T>): Promise<T | null> =>
    asked.catch((error: TroupeError) => {
      if (error.code === 'not_found' && !(error.detail.expected === 'a bucket')) return null;
      throw error;
    });

  /** A part of an object: of the first byte, so that its size comes along. */
  const range = (key: string, begin: number, end: number) =>
    request(key, async () => {
      const response = await client.getObjectRaw(key, false, begin, end);
      const content = new Uint8Array(await response.arrayBuffer());
      const total = Number(/\/(\d+)$/.exec(response.headers.get('content-range') ?? '')?.[1] ?? content.length);
      return { content, total, headers: response.headers };
    });

  const stated = (sha256: string): Record<`x-amz-${string}`, string> => ({ 'x-amz-meta-sha256': sha256 });

  return {
    address,
    async facts(key) {
      const found = await orNull(range(key, 0, 1));
      if (!found) return null;
      const { total, headers } = found;
      return { bytes: total, version: headers.get('etag') ?? '', sha256: headers.get('x-amz-meta-sha256') };
    },
    async read(key, begin, end) {
      const { content } = await range(key, begin, end);
      if (content.length === end - begin) return content;
      throw new TroupeError('checkpoint_damaged', `${at(key)} ends before its ${end} bytes.`, {
        hint: 'Put the checkpoint there again.',
      });
    },
    async small(key) {
      const found = await orNull(range(key, 0, SMALL));
      if (!found) return null;
      if (found.total > SMALL) throw new TroupeError('checkpoint_damaged', `${at(key)} has ${found.total} bytes.`);
      return { content: found.content, version: found.headers.get('etag') ?? '' };
    },
    async put(key, content, sha256, { ifVersion } = {}) {
      const condition: Record<string, string> =
        ifVersion === undefined ? {} : ifVersion === null ? { 'if-none-match': '*' } : { 'if-match': ifVersion };
      const headers = { ...stated(sha256), ...condition };
      // A condition holds once: what was answered with an error may have been done.
      const tries = ifVersion === undefined ? TRIES : 1;
      await request(key, () => client.putObject(key, content, undefined, undefined, headers), { tries });
    },
    async putParts(key, parts, sha256) {
      const headers = sha256 === null ? {} : stated(sha256);
      const upload = await request(key, () => client.getMultipartUploadId(key, undefined, undefined, headers));
      try {
        const done: Awaited<ReturnType<S3mini['uploadPart']>>[] = [];
        for await (const part of parts) {
          const number = done.length + 1;
          done.push(await request(key, () => client.uploadPart(key, upload, part, number)));
        }
        await request(key, () => client.completeMultipartUpload(key, upload, done), { tries: 1 });
      } catch (error) {
        await client.abortMultipartUpload(key, upload).catch(() => {});
        throw error;
      }
    },
    async list(prefix) {
      const found = await request(prefix, () => client.listObjects('/', prefix, 1_000_000));
      return (found ?? []).map(({ Key }) => Key).sort();
    },
    async remove(key) {
      await orNull(request(key, () => client.deleteObject(key)));
    },
  };
}

/** What went wrong, by the status of the answer alone: the server's own text may hold credentials. */
function translate(error: unknown, where: string): TroupeError {
  if (error instanceof TroupeError) return error;
  const { status, serviceCode, code } = error as { status?: number; serviceCode?: string; code?: string };
  const known = typeof serviceCode === 'string' && /^[A-Za-z]{3,40}$/.test(serviceCode) ? ` (${serviceCode})` : '';
  if (serviceCode === 'NoSuchBucket') {
    return new TroupeError('not_found', `${where}: there is no such bucket.`, {
      expected: 'a bucket',
      hint: 'Make the bucket first, or look whether AWS_REGION and AWS_ENDPOINT_URL are those of the bucket.',
    });
  }
  if (status === 404) return new TroupeError('not_found', `There is nothing at ${where}.`);
  if (status === 409 || status === 412) {
    return new TroupeError('conflict', `${where} was changed by somebody else meanwhile.`, { hint: 'Read it again.' });
  }
  if (status === 400 || status === 401 || status === 403) {
    return new TroupeError('config_invalid', `The server refuses access to ${where} with ${status}${known}.`, {
      hint: 'Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, that AWS_REGION is that of the bucket, that the key may read and write it, and the clock of this machine.',
    });
  }
  const why = status === undefined ? (typeof code === 'string' ? code : (error as Error).name) : `${status}${known}`;
  return new TroupeError('unreachable', `The server of ${where} does not answer as it should (${why}).`, {
    hint: 'Look whether AWS_ENDPOINT_URL is right and the server runs, then try again: what has arrived is not sent twice.',
  });
}
