/**
 * The program as plain JavaScript. In a checkout `dist` follows the sources: a file is compiled where its output is missing or has another
 * modification time than its source. An output is written beside its place and renamed, so commands that start at once, or are killed,
 * never leave or meet half a file. An installed package has no sources, and nothing to do here.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const FOLDERS = ['api', 'cli', 'examples', 'ingest', 'migrations', 'store', 'trainer'];
const UI = join('api', 'page');

/** Brings `dist` up to the sources, and returns the path of its cli.js. @throws NotBuilt where it cannot */
export async function ensureBuilt() {
  const program = join(ROOT, 'dist', 'cli.js');
  if (!existsSync(join(ROOT, 'cli.ts'))) {
    if (existsSync(program)) return program;
    throw new NotBuilt(
      'This package was packed before it was built: dist is missing. In its checkout, run: npm run build && npm pack',
    );
  }
  for (const name of Object.keys(BUNDLED)) await bundle(name);
  const stale = sources().filter((path) => timeOf(outputOf(path)) !== timeOf(path));
  if (stale.length > 0) await build(stale);
  return program;
}

function sources() {
  const modules = [
    ...readdirSync(ROOT).filter((name) => !name.startsWith('vitest')),
    ...FOLDERS.flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true }).map((name) => join(folder, name)),
    ),
  ].filter((path) => path.endsWith('.ts'));
  return [...modules, ...readdirSync(join(ROOT, UI)).map((name) => join(UI, name))];
}

const outputOf = (path) => join('dist', path.replace(/\.ts$/, '.js'));

/** Whole milliseconds, which both sides can hold exactly. */
const timeOf = (path) => Math.round(statSync(join(ROOT, path), { throwIfNoEntry: false })?.mtimeMs ?? 0);

async function build(stale) {
  const { build: compile } = await esbuild();
  // Read before compiling: a source that changes meanwhile is compiled again next time.
  const times = new Map(stale.map((path) => [path, timeOf(path)]));
  const { outputFiles } = await compile({
    absWorkingDir: ROOT,
    entryPoints: stale.filter((path) => path.endsWith('.ts')),
    outdir: 'dist',
    outbase: '.',
    write: false,
    bundle: true,
    plugins: [eachFileAlone],
    ...OUTPUT,
  });
  const compiled = new Map(outputFiles.map(({ path, contents }) => [path, contents]));
  for (const [path, time] of times) {
    const to = join(ROOT, outputOf(path));
    put(to, compiled.get(to) ?? readFileSync(join(ROOT, path)), time);
  }
}

/** Every import stays an import, of the output instead of the source. */
const eachFileAlone = {
  name: 'each-file-alone',
  setup({ onResolve }) {
    onResolve({ filter: /./ }, ({ kind, path, importer }) => {
      if (kind === 'entry-point') return undefined;
      const [name, part = 'index'] = path.split('/');
      if (!(name in BUNDLED)) return { path: path.replace(/^(\..*)\.ts$/, '$1.js'), external: true };
      return { path: `./${relative(dirname(importer), join(ROOT, name, `${part}.js`))}`, external: true };
    });
  },
};

/**
 * Packages of some 300 files each, with the parts that are imported, which become one file for each part. That saves every command
 * half a second of processor time for typebox, and for kysely 0.15 of the 0.4 s that `troupe schedule list` takes.
 */
const BUNDLED = {
  typebox: { index: 'typebox', compile: 'typebox/compile', value: 'typebox/value' },
  kysely: { index: 'kysely' },
};

async function bundle(name) {
  const folder = join(ROOT, 'dist', name);
  const installed = join(ROOT, 'node_modules', name);
  const done = join(folder, 'built-from.json');
  if (!existsSync(join(installed, 'package.json'))) throw notInstalled();
  const description = readFileSync(join(installed, 'package.json'), 'utf8');
  if (existsSync(done) && readFileSync(done, 'utf8') === description) return;
  const { build: compile } = await esbuild();
  const { outputFiles } = await compile({
    absWorkingDir: ROOT,
    entryPoints: BUNDLED[name],
    outdir: folder,
    write: false,
    bundle: true,
    splitting: true,
    ...OUTPUT,
  });
  for (const { path, contents } of outputFiles) put(path, contents);
  const license = readdirSync(installed).find((file) => /^license$/i.test(file));
  put(join(folder, 'LICENSE'), readFileSync(join(installed, license)));
  // Last: it says that the rest is whole.
  put(done, description);
}

function put(path, contents, time) {
  const draft = `${path}.${process.pid}`;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(draft, contents);
  if (time !== undefined) utimesSync(draft, time / 1000, time / 1000);
  renameSync(draft, path);
}

const OUTPUT = { format: 'esm', platform: 'node', target: 'node20', logLevel: 'silent' };

const esbuild = () =>
  import('esbuild').catch(() => {
    throw notInstalled();
  });

/** The program cannot be started; the message says what to do. */
export class NotBuilt extends Error {}

const notInstalled = () =>
  new NotBuilt('dist is older than the sources, and the packages that build it are missing. Run: npm ci');
