/** A stored event as the projections see it, before any amendment. */
import type { Stored } from '../amend.ts';
import { type Effective, versionOf } from './projection.ts';

export const effective = (event: Stored): Effective => ({ ...event, version: versionOf(event) }) as Effective;
