/** Reading what was frozen: a dataset is opened only after every file matches its manifest. */
import { constants } from 'node:buffer';
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { TroupeError } from '../../errors.ts';
import { type ArrowRow, type Frame, readArrowFile } from './arrow.ts';
import { LINEAGE_FILE, type Lineage } from './lineage.ts';
import { datasetId, FORMATS, type Manifest } from './manifest.ts';
import { isTemporary } from './publish.ts';

export type OpenedDataset = {
  readonly directory: string;
  readonly manifest: Manifest;
  readonly splits: readonly string[];
  /** One split as columns. Throws TroupeError `not_found` for a split it does not have. */
  readonly frame: (split: string) => Frame;
  /** Rows of one split, or of all in the order of the manifest. */
  readonly rows: (split?: string) => Generator<ArrowRow, void, undefined>;
  /** Which step each row is and which events made it. */
  readonly lineage: () => readonly Lineage[];
};

const damaged = (
  directory: string,
  file: string,
  what: string,
  detail: { expected?: string; got?: string } = {},
): TroupeError =>
  new TroupeError(
    'dataset_damaged',
    `Dataset ${basename(directory)} is damaged: ${file} ${what}. Freeze its recipe again, or restore the folder.`,
    {
      field: file,
      ...detail,
    },
  );

/**
 * Opens a dataset's folder and verifies its files, which are read again when rows are asked for: memory holds one batch of rows.
 * @throws TroupeError `not_found` where there is no dataset; `dataset_damaged` naming the file that is missing, changed, cut short,
 * or not in the manifest.
 */
export async function openDataset(directory: string): Promise<OpenedDataset> {
  const manifest = await readManifest(directory);
  const names = await readdir(directory);
  const stray = names.find((name) => name !== 'manifest.json' && !manifest.files.some((file) => file.name === name));
  if (stray !== undefined) throw damaged(directory, stray, 'is not in the manifest');
  await Promise.all(
    manifest.files.map(async (file) => {
      const path = join(directory, file.name);
      const facts = await stat(path).catch(() => null);
      if (facts === null) throw damaged(directory, file.name, 'is missing');
      if (facts.size !== file.bytes) {
        throw damaged(directory, file.name, 'has another length', {
          expected: `${file.bytes} bytes`,
          got: `${facts.size} bytes`,
        });
      }
      const hash = await hashOf(path);
      if (hash !== file.sha256)
        throw damaged(directory, file.name, 'has another hash', { expected: file.sha256, got: hash });
    }),
  );
  const splits = Object.keys(manifest.rows);
  const frames = new Map<string, Frame>();
  const frame = (split: string): Frame => {
    const known = frames.get(split);
    if (known) return known;
    const rows = manifest.rows[split];
    if (rows === undefined) {
      throw new TroupeError(
        'not_found',
        `Dataset ${manifest.dataset_id} has no split ${JSON.stringify(split)}; it has ${splits.join(', ')}.`,
        {
          expected: splits.join(', '),
          got: split,
        },
      );
    }
    const read = readArrowFile(join(directory, `${split}.arrow`), rows, manifest.columns);
    frames.set(split, read);
    return read;
  };
  return {
    directory,
    manifest,
    splits,
    frame,
    *rows(split) {
      for (const name of split === undefined ? splits : [split]) yield* frame(name).each();
    },
    lineage: () => lineageIn(directory, manifest),
  };
}

/** Of a dataset that was frozen before, the file is not compressed. */
function lineageIn(directory: string, { files }: Manifest): readonly Lineage[] {
  const isGzip = files.some(({ name }) => name === LINEAGE_FILE);
  const bytes = readFileSync(join(directory, isGzip ? LINEAGE_FILE : LINEAGE_FILE.replace('.gz', '')));
  return Array.from(linesOf(isGzip ? inflated(directory, bytes) : bytes), (line) => JSON.parse(line) as Lineage);
}

/** Of what a lineage holds five sixths repeat; no text of names and ids is packed into so small a part. */
const MOST_PACKED = 250;

function inflated(directory: string, bytes: Buffer): Buffer {
  const most = Math.min(constants.MAX_LENGTH, MOST_PACKED * bytes.length + 1024 * 1024);
  try {
    return gunzipSync(bytes, { maxOutputLength: most });
  } catch (error) {
    throw damaged(directory, LINEAGE_FILE, 'cannot be unpacked', {
      expected: `at most ${most} bytes`,
      got: (error as Error).message,
    });
  }
}

/** The lines of a text that may be longer than a string can be. */
function* linesOf(text: Buffer): Generator<string, void, undefined> {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at);
    yield text.toString('utf8', at, end);
    at = end + 1;
  }
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const part of createReadStream(path)) hash.update(part as Buffer);
  return hash.digest('hex');
}

/**
 * Reads a manifest and checks its identity: its id is made of its content hash and recipe.
 * @throws TroupeError `not_found`, `dataset_damaged`.
 */
async function readManifest(directory: string): Promise<Manifest> {
  const text = await readFile(join(directory, 'manifest.json'), 'utf8').catch(() => null);
  if (text === null)
    throw new TroupeError('not_found', `There is no dataset in ${directory}.`, {
      expected: 'a folder with manifest.json',
    });
  let manifest: Manifest;
  try {
    manifest = JSON.parse(text) as Manifest;
  } catch {
    throw damaged(directory, 'manifest.json', 'is not JSON');
  }
  if (!FORMATS.includes(manifest.format)) {
    throw damaged(directory, 'manifest.json', 'is of another format', {
      expected: FORMATS.join(' or '),
      got: String(manifest.format),
    });
  }
  const expected = datasetId(manifest.content_sha256, manifest.recipe);
  if (manifest.dataset_id !== expected) {
    throw damaged(directory, 'manifest.json', 'does not belong to its recipe and content', {
      expected,
      got: manifest.dataset_id,
    });
  }
  return manifest;
}

export type DatasetSummary = {
  readonly directory: string;
  readonly manifest: Manifest | null;
  readonly problem: string | null;
};

/** The datasets under a folder, by name and id; a damaged manifest is listed with its problem. Drafts of a freeze under way are not seen. */
export async function listDatasets(parent: string): Promise<readonly DatasetSummary[]> {
  const entries = await readdir(parent, { withFileTypes: true }).catch(() => []);
  const folders = entries
    .filter((entry) => entry.isDirectory() && !isTemporary(entry.name))
    .map((entry) => join(parent, entry.name));
  const listed = await Promise.all(
    folders.map(async (directory): Promise<DatasetSummary> => {
      try {
        return { directory, manifest: await readManifest(directory), problem: null };
      } catch (error) {
        return { directory, manifest: null, problem: (error as Error).message };
      }
    }),
  );
  const key = ({ manifest, directory }: DatasetSummary) => `${manifest?.name ?? '\uFFFF'}\n${directory}`;
  return listed.sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

/** The folder of a dataset named by id, by the beginning of its id, or by a name that only one has. Throws TroupeError `not_found`. */
export async function findDataset(parent: string, name: string): Promise<string> {
  const listed = await listDatasets(parent);
  const byId = listed.filter(({ directory }) => basename(directory).startsWith(name));
  const found = byId.length > 0 ? byId : listed.filter(({ manifest }) => manifest?.name === name);
  if (found.length === 1) return found[0]!.directory;
  const ids = (found.length > 0 ? found : listed).map(
    ({ directory, manifest }) => `${basename(directory)} (${manifest?.name ?? 'damaged'})`,
  );
  const what = found.length > 1 ? 'is the name of several datasets' : 'is no dataset';
  throw new TroupeError(
    'not_found',
    `${JSON.stringify(name)} ${what} under ${parent}. There are: ${ids.slice(0, 20).join(', ') || 'none'}.`,
    {
      expected: 'the id of a dataset',
      got: name,
    },
  );
}

/** A dataset by its folder, which is written with a /, or by its id or name in the folder of all. */
export const openNamed = async (parent: string, name: string): Promise<OpenedDataset> =>
  openDataset(name.includes('/') ? resolve(name) : await findDataset(parent, name));
