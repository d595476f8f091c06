/**
 * The program as it is shipped, JavaScript, made once for each state of the sources. Started from source every `troupe` of the tests
 * would take two seconds more of processor time.
 */
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, extname, join } from 'node:path';
import ts from 'typescript';

const ROOT = join(import.meta.dirname, '../../..');
/** Inside node_modules, so that the packages are found from there. */
const CACHE = join(ROOT, 'node_modules/.cache/troupe-tests');
const SOURCES = [
  'cli.ts',
  'config.ts',
  'errors.ts',
  'index.ts',
  'cli',
  'ingest',
  'store',
  'trainer',
  'api',
  'migrations',
  'examples',
];

let built: string | undefined;

/** The path of cli.js. */
export function builtProgram(): string {
  built ??= build();
  return join(built, 'cli.js');
}

function build(): string {
  const files = SOURCES.flatMap(filesBelow);
  const state = createHash('sha256').update(ts.version);
  for (const file of files) {
    const { size, mtimeMs } = statSync(join(ROOT, file));
    state.update(`${file} ${size} ${mtimeMs}\n`);
  }
  const folder = join(CACHE, state.digest('hex').slice(0, 16));
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  for (const old of readdirSync(CACHE)) {
    // Another run may be using its own; a day later nobody does.
    const path = join(CACHE, old);
    if (Date.now() - statSync(path).mtimeMs > 24 * 3600 * 1000) rmSync(path, { recursive: true, force: true });
  }
  const draft = mkdtempSync(join(CACHE, 'draft-'));
  writeFileSync(join(draft, 'package.json'), '{"type":"module"}');
  for (const file of files) put(file, draft);
  try {
    renameSync(draft, folder);
  } catch (error) {
    // Another worker was faster.
    if (!existsSync(folder)) throw error;
    rmSync(draft, { recursive: true, force: true });
  }
  return folder;
}

function filesBelow(path: string): string[] {
  const whole = join(ROOT, path);
  if (!statSync(whole).isDirectory()) return [path];
  return readdirSync(whole)
    .sort()
    .flatMap((name) => filesBelow(join(path, name)));
}

function put(file: string, folder: string): void {
  const to = join(folder, file);
  mkdirSync(dirname(to), { recursive: true });
  if (extname(file) !== '.ts') {
    cpSync(join(ROOT, file), to);
    return;
  }
  const { outputText } = ts.transpileModule(readFileSync(join(ROOT, file), 'utf8'), {
    fileName: file,
    compilerOptions: {
      module: ts.ModuleKind.ESNext,
      target: ts.ScriptTarget.ES2022,
      verbatimModuleSyntax: true,
      rewriteRelativeImportExtensions: true,
    },
  });
  writeFileSync(to.replace(/\.ts$/, '.js'), outputText);
}
