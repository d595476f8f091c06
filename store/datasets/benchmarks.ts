/** The files that a dataset must share no text with, as recipes name them: they lie in the folder `benchmarks` of a home. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { got, TroupeError } from '../../errors.ts';
import { mapStrings } from '../../ingest/events/text.ts';
import type { BenchmarkFile, Decontaminate } from './thinning.ts';
import { FEWEST, type WordRuns, wordRuns } from './word-runs.ts';

export type Benchmarks = {
  /** Words in a row that the text shares with a file, and the file; null where it shares none. */
  readonly find: (text: string) => { readonly words: string; readonly file: string } | null;
  /** The files as they were read. */
  readonly files: readonly BenchmarkFile[];
  readonly warnings: readonly string[];
};

/**
 * Reads the files line by line. Of JSON Lines every text in a line is compared by itself, of other files every paragraph.
 * @throws TroupeError `recipe_invalid` for a file that is not there, is another one than the recipe pins, or has nothing to compare
 */
export async function readBenchmarks(folder: string | null, { files, words }: Decontaminate): Promise<Benchmarks> {
  if (folder === null) refuse(files[0]!.name, 'cannot be read here: there is no home.', 'a home', 'none');
  const read: (BenchmarkFile & { readonly runs: WordRuns })[] = [];
  const warnings: string[] = [];
  for (const file of files) {
    const runs = wordRuns(words);
    let [short, unread] = [0, 0];
    const hash = createHash('sha256');
    for await (const text of textsIn(join(folder, file.name), file.name, hash, () => unread++))
      if (!runs.add(text)) short++;
    const sha256 = hash.digest('hex');
    if (file.sha256 !== null && file.sha256 !== sha256)
      refuse(file.name, `is another file than the recipe pins: its SHA-256 is ${sha256}.`, file.sha256, sha256);
    if (runs.isFull())
      refuse(file.name, 'has more than 16 million runs of words; divide it.', 'a shorter file', 'more');
    if (runs.size() === 0)
      refuse(file.name, `has no text of ${Math.min(FEWEST, words)} words or more.`, 'texts to compare', 'none');
    if (short > 0)
      warnings.push(
        `${short} texts of ${file.name} have fewer than ${Math.min(FEWEST, words)} words and are not compared.`,
      );
    if (unread > 0) warnings.push(`${unread} lines of ${file.name} are not JSON and are compared as text.`);
    read.push({ name: file.name, sha256, runs });
  }
  return {
    files: read.map(({ name, sha256 }) => ({ name, sha256 })),
    warnings,
    find(text) {
      for (const { name, runs } of read) {
        const found = runs.find(text);
        if (found !== null) return { words: found, file: name };
      }
      return null;
    },
  };
}

function refuse(name: string, what: string, expected: string, given: string): never {
  throw new TroupeError('recipe_invalid', `decontaminate.files: ${name} ${what}`, {
    field: 'decontaminate.files',
    expected,
    got: got(given),
  });
}

async function* textsIn(
  path: string,
  name: string,
  hash: ReturnType<typeof createHash>,
  onUnread: () => void,
): AsyncGenerator<string, void, undefined> {
  const source = createReadStream(path);
  const opened = new Promise<void>((resolve, reject) => source.once('ready', resolve).once('error', reject));
  await opened.catch((error: NodeJS.ErrnoException) =>
    refuse(
      name,
      `cannot be read (${error.code}). Put it at ${path}.`,
      'a file in the folder benchmarks',
      error.code ?? '',
    ),
  );
  source.on('data', (bytes) => hash.update(bytes));
  let paragraph: string[] = [];
  for await (const line of createInterface({ input: source, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (name.endsWith('.jsonl')) {
      if (line.trim() !== '') yield* textsOfLine(line, onUnread);
    } else if (line.trim() !== '') paragraph.push(line);
    else if (paragraph.length > 0) {
      yield paragraph.join('\n');
      paragraph = [];
    }
  }
  if (paragraph.length > 0) yield paragraph.join('\n');
}

function textsOfLine(line: string, onUnread: () => void): readonly string[] {
  const texts: string[] = [];
  try {
    mapStrings(JSON.parse(line), (text) => {
      texts.push(text);
      return text;
    });
    return texts;
  } catch {
    onUnread();
    return [line];
  }
}
