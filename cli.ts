#!/usr/bin/env node
/** The command line: the only place where the layers are wired together. */
import { toleratePipes } from './cli/output.ts';
import { runProgram } from './cli/program.ts';

toleratePipes();
await runProgram(process.argv.slice(2));
