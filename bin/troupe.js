#!/usr/bin/env node
/** `troupe`: in a checkout it first brings `dist` up to the sources. */
import { pathToFileURL } from 'node:url';
import { ensureBuilt, NotBuilt } from './build.js';

const program = await ensureBuilt().catch((error) => {
  if (!(error instanceof NotBuilt)) throw error;
  console.error(`troupe: ${error.message}`);
  process.exit(1);
});
await import(pathToFileURL(program).href);
