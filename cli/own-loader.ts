/**
 * How Node loads a user's own modules: `troupe/…` is this package, wherever the module lies, and TypeScript is read without its types,
 * which Node does by itself only from version 22 on.
 */
import { readFile } from 'node:fs/promises';
import type { LoadHook, ResolveHook } from 'node:module';
import { fileURLToPath } from 'node:url';
import { transformSync } from '@swc/wasm-typescript';

export const resolve: ResolveHook = (specifier, context, next) =>
  next(specifier, /^troupe(?:\/|$)/.test(specifier) ? { ...context, parentURL: import.meta.url } : context);

export const load: LoadHook = async (url, context, next) => {
  if (!/^file:.*\.m?ts$/.test(url)) return next(url, context);
  const text = await readFile(fileURLToPath(url), 'utf8');
  try {
    return { format: 'module', source: transformSync(text, { mode: 'strip-only' }).code, shortCircuit: true };
  } catch (error) {
    // Not an Error, but where it is and what.
    const { startLine, message } = error as { readonly startLine: number; readonly message: string };
    throw new SyntaxError(`line ${startLine}: ${message}`);
  }
};
