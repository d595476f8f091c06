/** Formats and methods of a user's own: modules in JavaScript or TypeScript, which the settings and `--format` name by their files. */
import { existsSync } from 'node:fs';
import { register } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Config } from '../config.ts';
import { got, TroupeError } from '../errors.ts';
import type { Format } from '../ingest/formats/kit/format.ts';
import type { Method } from '../store/evaluate/methods/method.ts';

/** Loads what the settings name. @throws TroupeError `config_invalid`, naming the file and what it should hold */
export async function loadOwn({ formats, methods }: Pick<Config, 'formats' | 'methods'>): Promise<void> {
  for (const file of filesIn(formats)) await loadFormats(file);
  for (const file of filesIn(methods)) {
    const { addMethods, METHOD_NAMES, OWN_METHODS } = await import('../store/evaluate/methods/catalogue.ts');
    const found = await exportedFrom('methods', file, isMethod, 'method({ … }) of troupe/method');
    addMethods(newIn(found, OWN_METHODS, METHOD_NAMES, { field: 'methods', one: 'method', file }));
  }
}

/** The formats of a file, which are known by their names from then on. */
async function loadFormats(file: string): Promise<readonly Format[]> {
  // With it come all formats, which most commands do without.
  const { addFormats, FORMATS } = await import('../ingest/formats/catalogue.ts');
  const found = await exportedFrom('formats', file, isFormat, 'format({ … }) of troupe/format');
  const names = FORMATS.map(({ name }) => name);
  addFormats(newIn(found, FORMATS, names, { field: 'formats', one: 'format', file }));
  return found;
}

/** The name of a format, given by its name or by the file of a user's own. @throws TroupeError `usage` where there is no one such format */
export async function formatIn(given: string, settings: Parameters<typeof loadOwn>[0]): Promise<string> {
  await loadOwn(settings);
  const { formatNamed } = await import('../ingest/formats/catalogue.ts');
  if (!/[\\/]|\.m?[jt]s$/.test(given)) return formatNamed(given).name;
  const [only, ...others] = (await loadFormats(given)).map(({ name }) => name);
  if (others.length === 0) return only!;
  throw new TroupeError(
    'usage',
    `${given} has the formats ${[only, ...others].join(', ')}. Name the file in the setting formats, and one of them with --format.`,
    { field: 'format', expected: 'a file with one format', got: given },
  );
}

/** What is not known yet. @throws TroupeError `config_invalid` for a name that another has */
function newIn<T extends { readonly name: string }>(
  found: readonly T[],
  known: readonly T[],
  names: readonly string[],
  { field, one, file }: { readonly field: string; readonly one: string; readonly file: string },
): readonly T[] {
  const added = found.filter((it) => !known.includes(it));
  const taken = added.find(({ name }, i) => names.includes(name) || added.findIndex((it) => it.name === name) < i);
  if (taken === undefined) return added;
  throw new TroupeError('config_invalid', `${file} has a ${one} ${got(taken.name)}, and there is one of that name.`, {
    ...{ field, expected: `a name that no other ${one} has`, got: got(taken.name) },
  });
}

const filesIn = (setting: string | null): string[] =>
  (setting ?? '')
    .split(',')
    .map((file) => file.trim())
    .filter((file) => file !== '');

let registered = false;

async function exportedFrom<T>(
  field: 'formats' | 'methods',
  file: string,
  is: (value: unknown) => value is T,
  maker: string,
): Promise<readonly T[]> {
  const path = resolve(file);
  const expected = `a module that exports what ${maker} returns`;
  const refuse = (why: string, cause?: unknown) =>
    new TroupeError('config_invalid', `${file} ${why} Expected ${expected}.`, { field, expected, cause });
  if (!existsSync(path)) throw refuse('is not there.');
  if (!registered) register('./own-loader.js', import.meta.url);
  registered = true;
  const exported: Record<string, unknown> = await import(pathToFileURL(path).href).catch((cause: unknown) => {
    throw refuse(`cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}.`, cause);
  });
  const found = [...new Set(Object.values(exported))].filter(is);
  if (found.length > 0) return found;
  throw refuse(`exports ${Object.keys(exported).join(', ') || 'nothing'}.`);
}

const isFormat = (value: unknown): value is Format =>
  has(value, { name: 'string', summary: 'string', recognises: 'function', convert: 'function' });

const isMethod = (value: unknown): value is Method =>
  has(value, { name: 'string', kind: 'string', source: 'string', summary: 'string', version: 'number' }) &&
  has(value, { params: 'object', input: 'object', run: 'function' });

const has = (value: unknown, types: Readonly<Record<string, string>>): boolean =>
  typeof value === 'object' &&
  value !== null &&
  Object.entries(types).every(([name, type]) => typeof (value as Record<string, unknown>)[name] === type);
