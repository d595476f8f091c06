/**
 * Programs of the tests that are started as processes of their own. Each is compiled once, and what it imports of the product is what is
 * shipped: started from the sources, each start would take about a second of processor time more.
 */
import { mkdirSync, renameSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { build } from 'esbuild';
import { builtProgram } from '../cli/support/built.ts';

const ROOT = join(import.meta.dirname, '../..');
const COMPILED = join(ROOT, 'node_modules/.cache/troupe-test-programs');
const built = new Map<string, Promise<string>>();

/** The path of the JavaScript made of a program's TypeScript, below this repository's node_modules. */
export function compiledProgram(source: string): Promise<string> {
  const known = built.get(source) ?? compile(source);
  built.set(source, known);
  return known;
}

async function compile(source: string): Promise<string> {
  const name = relative(ROOT, source).replaceAll(/[^\w.-]/g, '_');
  const program = join(COMPILED, `${name}.mjs`);
  // Workers beside each other compile the same: each writes beside its place and renames.
  const draft = `${program}.${process.pid}`;
  mkdirSync(COMPILED, { recursive: true });
  await build({
    entryPoints: [source],
    outfile: draft,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    packages: 'external',
    plugins: [
      {
        name: 'the-product-as-shipped',
        setup({ onResolve }) {
          onResolve({ filter: /^\..*\.ts$/ }, ({ path, resolveDir }) => {
            const inside = relative(ROOT, resolve(resolveDir, path));
            if (/^(test|bench|proofs)/.test(inside)) return undefined;
            return { path: join(dirname(builtProgram), inside.replace(/\.ts$/, '.js')), external: true };
          });
        },
      },
    ],
  });
  renameSync(draft, program);
  return program;
}
