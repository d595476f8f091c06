#!/usr/bin/env node
/** `troupe`: in a checkout it first brings `dist` up to the sources. */
import { pathToFileURL } from 'node:url';
import { ensureBuilt } from './build.js';

await import(pathToFileURL(await ensureBuilt()).href);
