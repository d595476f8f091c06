/** Which Troupe this is, and how it is called. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const VERSION = '0.1.0';

/** Of the checkout, also where this file is its output in dist; an installed package has no source. */
const SOURCE = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? '../cli.ts' : '../../cli.ts', import.meta.url));

/** How a person types the command. Outside a checkout npx would ask the registry for the name, which is not ours there, without `--no`. */
export const typedName = (source = SOURCE): string => (existsSync(source) ? 'npx troupe' : 'npx --no troupe');
