// The team by Anthropic's SDK, through the gateway.
import { plan, write } from './team.mjs';

await write(await plan());
